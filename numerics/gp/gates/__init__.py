"""Gates: which experts know the neighbourhood of a query point. Each gives scores, the larger the better."""
