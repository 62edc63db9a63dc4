"""Store and forward: a spool keeps frames until a server has acknowledged them."""
