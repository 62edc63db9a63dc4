"""The server: topics over HTTP, SSE and WebSocket, on one event loop over one log."""
