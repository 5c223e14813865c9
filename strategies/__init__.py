"""What the fusion center does: ask, fuse, decide when to stop."""
