"""Writes the audit: the acts of one turn of the loop are one append, which nobody waits for."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.engine.audit import Act, Audit
from penstock.engine.handle import Handle
from penstock.errors import Overloaded, PenstockError
from penstock.server.loop_bridge import Bridge

_logger = logging.getLogger("penstock.server")


class AuditWriter:
    """Event loop only. Acts are written in their order. A failure goes to the server's log."""

    def __init__(self, bridge: Bridge, push: Callable[[Handle], None]) -> None:
        self._bridge = bridge
        self._push = push
        self.acts: list[Act] = []  # of this turn
        # For appends that have to wait. As long as it has any, all others wait behind them.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-audit")
        self._appends_on_thread = 0

    def note(self, act: str, fields: dict[str, Any]) -> None:
        """Record an act at the end of this turn."""
        self.acts.append({"act": act, **fields})

    def submit(self, audit: Audit) -> None:
        """Append the acts of this turn; there is one at least."""
        acts, self.acts = self.acts, []
        if not self._appends_on_thread:
            try:
                if audit.submit(acts, functools.partial(_log_failure, acts), self._push):
                    return
            except Overloaded:
                pass  # wait for room
            except PenstockError as error:
                _log_failure(acts, error)
                return
        self._appends_on_thread += 1
        self._thread.submit(self._append, audit, acts)

    def _append(self, audit: Audit, acts: list[Act]) -> None:
        """On the thread."""
        try:
            audit.append(acts)
        except PenstockError as error:
            _log_failure(acts, error)
        finally:
            self._bridge.post(self._appended, None)

    def _appended(self, _: None) -> None:
        self._appends_on_thread -= 1

    def close(self) -> None:
        """Blocks until the appends that wait are done. Not on the loop."""
        self._thread.shutdown(wait=True)


def _log_failure(acts: list[Act], error: PenstockError | None) -> None:
    """Any thread. `error` is None when there was no failure."""
    if error is not None:
        for act in acts:
            _logger.error("audit failed: %s: %s", act, error)
