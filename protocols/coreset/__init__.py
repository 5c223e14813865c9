"""Fair clustering from coresets: payloads and settings."""
