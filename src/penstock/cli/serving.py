"""The process of a server: the interpreter's settings, and signals."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from typing import Final

from penstock.server.app import Server, serve

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# A thread that has finished a sync waits at most this long for a busy event loop.
_SWITCH_INTERVAL_S = 0.001
# Reference counts free what a request used. The collector looks for cycles only when more objects
# are alive than a few thousand requests in flight need: at its default of 700 it would go through
# them many times before their answers are sent.
_COLLECT_OBJECTS = 20_000


def tune() -> None:
    """Prepare the interpreter of this process."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.set_threshold(_COLLECT_OBJECTS)


async def until_stopped(server: Server) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    until = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, until.set)
    loop.add_signal_handler(signal.SIGHUP, server.reload_tls)
    await serve(server, until)
