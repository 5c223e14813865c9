"""Select-Exchange-Cluster: payloads and settings."""
