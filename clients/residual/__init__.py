"""A site in attribute-distributed regression: an agent that holds columns of its own."""
