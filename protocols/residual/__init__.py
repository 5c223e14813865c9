"""Attribute-distributed regression: payloads, settings, and the plan of who is asked what."""
