"""A site in coreset: it summarizes its rows in a coreset, and assigns every row to a cluster."""
