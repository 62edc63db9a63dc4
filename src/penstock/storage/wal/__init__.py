"""The write-ahead log: sharded files of frames, group commit, recovery."""
