"""What a site does: load its private shard, and answer what it is asked."""
