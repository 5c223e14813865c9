"""A site in fair clustering: a coreset of its rows, and the cluster of every row."""
