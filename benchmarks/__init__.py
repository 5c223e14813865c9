"""Benchmarks: what the project's own claims of speed rest on, each beside a peer in one run (docs/benchmarks.md)."""
