"""Store and forward: frames wait here until a server has taken them."""
