"""A site in Select-Exchange-Cluster: a learner."""
