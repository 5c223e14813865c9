"""A site in bc3e: E-steps on its own instances."""
