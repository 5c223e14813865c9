"""The codec: typed payloads, messages, faults, and payloads as vectors that can be added."""
