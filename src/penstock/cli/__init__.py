"""The `penstock` command: one file a verb."""
