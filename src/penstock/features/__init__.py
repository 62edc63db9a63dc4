"""Features: aggregates per key, computed on the log as it grows."""
