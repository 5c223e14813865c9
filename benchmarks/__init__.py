"""Peers side by side and growth (docs/benchmarks.md), and what claims of speed rest on (docs/measurements.md)."""
