"""BC3E: payloads and settings."""
