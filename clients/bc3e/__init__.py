"""A site in BC3E: E-steps on its own instances."""
