"""A site in Gaussian process regression: one expert, or several."""
