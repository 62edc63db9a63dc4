"""Where decisions meet disks: the embedded log."""
