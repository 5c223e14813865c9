"""Mathematics that several protocols use: exact sums, distances, alignment, threads."""
