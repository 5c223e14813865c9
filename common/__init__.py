"""What sites and fusion center both need and no protocol owns: atomic files, the schema of settings."""
