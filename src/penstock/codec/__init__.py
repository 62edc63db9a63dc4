"""Bytes and the values they stand for. Pure: no file, socket, thread or clock."""
