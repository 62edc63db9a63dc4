"""Foreign protocols: one package each, a pure codec and an adapter onto the service."""
