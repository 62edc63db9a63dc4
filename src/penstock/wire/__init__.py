"""What travels between processes, as bytes and as values. Pure; shared by server and clients."""
