"""The subcommands of ``consilience``, one module each or a few that belong together; `consilience.cli` lists them."""
