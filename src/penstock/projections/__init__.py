"""State that is folded from the records of a topic. The engine opens it; see `host`."""
