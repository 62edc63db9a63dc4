"""The embedded log: it connects the pure decisions with disks and threads."""
