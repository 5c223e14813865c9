"""Protocols beside their alternatives, cost against growth (docs/benchmarks.md), and seconds per ask."""
