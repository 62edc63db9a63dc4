"""What a query does about missing and damaged records: the options `onGap` and `skipCorrupt`.

Records may be missing when a query is planned, or be removed between its plan and its read. `fail`
ends the query, `report` logs them and writes them to the gap ledger, `ignore` goes on without them.
Damaged records come here only with `skipCorrupt`; without it they fail the query.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from penstock.clock import SystemClock
from penstock.errors import CorruptFrame
from penstock.spark.gap_ledger import Ledger
from penstock.spark.gaps import GapFound, GapRow
from penstock.spark.options import OnGap

DAMAGED: Final = "corrupt"  # the reason in the row of a gap

logger = logging.getLogger("penstock.spark")


class GapPolicy:
    """`skipped`: the gaps after which the query goes on. Not for several threads."""

    def __init__(self, on_gap: OnGap, gap_ledger: str) -> None:
        self.skipped: list[GapRow] = []
        self._on_gap = on_gap
        self._gap_ledger = gap_ledger

    def check(self, where: str, rows: Sequence[GapRow]) -> None:
        """Raise GapFound if gaps fail the query. `where` is the directory or the URL."""
        if rows and self._on_gap == "fail":
            raise GapFound(where, rows)

    def skip_missing(self, where: str, rows: Sequence[GapRow]) -> None:
        """Records are missing: report them, or raise GapFound."""
        self.check(where, rows)
        self.skipped.extend(rows)
        if rows and self._on_gap == "report":
            for row in rows:
                logger.warning("%s are gone (%s)", row, row.reason)
            self._record(rows)

    def skip_damaged(
        self, topic: str, epoch: int, first: int, last: int, error: CorruptFrame
    ) -> None:
        """Damaged records are always reported."""
        logger.warning("skipped records %d to %d of topic %s: %s", first, last, topic, error)
        row = GapRow(topic, epoch, first, last, DAMAGED)
        self.skipped.append(row)
        self._record([row])

    def _record(self, rows: Sequence[GapRow]) -> None:
        if self._gap_ledger:
            Ledger(self._gap_ledger).record(rows, SystemClock().now_ms())
