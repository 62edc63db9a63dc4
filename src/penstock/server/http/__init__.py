"""HTTP: connections, routing and one module of handlers for each noun of the API."""
