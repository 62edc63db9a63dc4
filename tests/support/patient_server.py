"""`penstock` whose fixed times for a peer never run out: for tests whose peer may be paused.

What happens when they do run out is tested elsewhere, with clocks of the tests' own.
"""

from __future__ import annotations

from penstock.cli.main import main
from penstock.compat.qwp import resend_detection
from penstock.server import websocket
from penstock.server.http import h1

FOR_EVER_S = 3600.0

if __name__ == "__main__":
    for module, name in (
        (resend_detection, "_READING_S"),
        (websocket, "LINGER_S"),
        (h1, "LINGER_S"),
    ):
        if not hasattr(module, name):
            raise AssertionError(f"{module.__name__} has no {name}")
        setattr(module, name, FOR_EVER_S)
    main()
