"""A data directory: its files, the state in them, and a view for readers beside the writer."""
