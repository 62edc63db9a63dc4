"""The thread that looks after a sender: its spool, the slots of others, rows that have waited."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.errors import Closed
from penstock.sender.orphans import Orphans
from penstock.sender.spool import Spool

_log = logging.getLogger("penstock.sender")


class Keeper:
    """`flush_due` flushes rows that have waited long enough, and says when it wants to be called
    again, in seconds; None: when somebody asks for upkeep."""

    def __init__(
        self, spool: Spool, orphans: Orphans, flush_due: Callable[[], float | None]
    ) -> None:
        self._spool = spool
        self._orphans = orphans
        self._flush_due = flush_due
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="penstock-spool", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """No more is begun. `join` it when the spool is closed, which wakes it."""
        self._is_over = True

    def join(self, timeout_s: float) -> None:
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._is_over:
            # The timer last: what is asked for meanwhile is seen, since the upkeep before it
            # takes note of that.
            waits = [self._look_after_spool(), self._look_for_orphans(), self._flush_due()]
            pause_s = min((one for one in waits if one is not None), default=None)
            self._spool.wait_for_work(pause_s)

    def _look_after_spool(self) -> float | None:
        try:
            return self._spool.upkeep()
        except Closed:
            return None
        except Exception:  # noqa: BLE001 - the producer meets what is wrong; this thread goes on
            _log.exception("the spool's upkeep failed")
            return 1.0

    def _look_for_orphans(self) -> float | None:
        try:
            return self._orphans.look()
        except Exception:  # noqa: BLE001 - the sender's own rows must not wait for ever
            _log.exception("the slots of others could not be looked after")
            return 1.0
