"""Secure aggregation: payloads and cryptography of masked sums."""
