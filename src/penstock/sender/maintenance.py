"""The maintenance thread of a sender: its spool, orphaned slots, and the flush timer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from penstock.errors import Closed
from penstock.sender.orphans import Orphans
from penstock.sender.spool import Spool

_log = logging.getLogger("penstock.sender")


class SenderMaintenance:
    """`flush_due` flushes rows that have waited for the flush interval and returns the seconds
    until its next call; None: after `request_maintenance`."""

    def __init__(
        self, spool: Spool, orphans: Orphans, flush_due: Callable[[], float | None]
    ) -> None:
        self._spool = spool
        self._orphans = orphans
        self._flush_due = flush_due
        self._is_over = False
        self._thread = threading.Thread(
            target=self._run, name="penstock-sender-maintenance", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop after the current step. Closing the spool wakes the thread; then `join` it."""
        self._is_over = True

    def join(self, timeout_s: float) -> None:
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while not self._is_over:
            # The timer comes last: `maintain` has reset the request flag before, so a request that
            # arrives in between is not lost.
            waits = [self._maintain_spool(), self._check_orphans(), self._flush_due()]
            pause_s = min((one for one in waits if one is not None), default=None)
            self._spool.wait_for_work(pause_s)

    def _maintain_spool(self) -> float | None:
        try:
            return self._spool.maintain()
        except Closed:
            return None
        except Exception:  # noqa: BLE001 - the producer gets the error from its own calls
            _log.exception("the maintenance of the spool failed")
            return 1.0

    def _check_orphans(self) -> float | None:
        try:
            return self._orphans.check()
        except Exception:  # noqa: BLE001 - the sender's own rows must still be flushed
            _log.exception("the check for orphaned slots failed")
            return 1.0
