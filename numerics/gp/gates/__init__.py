"""Gates: scores of the experts at each query point, the larger the better."""
