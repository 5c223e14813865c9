"""Gaussian process experts: payloads and settings."""
