"""A till, a bookkeeper and a restart: a small program on the embedded log.

The till appends sales. The bookkeeper folds them into totals and writes each total, together with
the place it has read up to, into a topic of its own, so that it can go on after a restart.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field

import penstock

MORNING = [("bread", 350), ("milk", 120), ("bread", 350)]
EVENING = [("milk", 120), ("cheese", 890)]


def sell(log: penstock.Log, sales: list[tuple[str, int]], *, shift: str) -> None:
    """Append a shift's sales. The key makes it safe to send the same shift again."""
    records = [{"item": item, "cents": cents} for item, cents in sales]
    done = log.append("sales", records, tag=shift, idempotency_key=shift)
    again = " (already there)" if done.deduped else ""
    print(f"till: {shift}, seqs {done.first_seq} to {done.last_seq}{again}")


@dataclass
class Bookkeeper:
    """Totals by item, and the seq of the last sale in them."""

    after: int = 0
    totals: dict[str, int] = field(default_factory=dict)

    @classmethod
    def resume(cls, log: penstock.Log) -> Bookkeeper:
        """As the last report says; the topic keeps only that one."""
        reports = log.read("reports", after=max(0, log.topic("reports").head_seq - 1)).records
        return cls(**reports[-1].data) if reports else cls()

    def catch_up(self, log: penstock.Log) -> None:
        """Fold what is new, then write down totals and place in one record: both or neither."""
        while True:
            page = log.read("sales", after=self.after, limit=2)
            if page.gap is not None:
                raise SystemExit(f"sales {page.gap.first} to {page.gap.last}: {page.gap.reason}")
            for record in page.records:
                sale = record.data
                self.totals[sale["item"]] = self.totals.get(sale["item"], 0) + sale["cents"]
            self.after = page.next_seq
            if page.caught_up:
                break
        log.append("reports", [{"after": self.after, "totals": self.totals}])
        print(f"bookkeeper: up to seq {self.after}, {self.totals}")


def run(path: str) -> None:
    """One day in two lives of the program."""
    with penstock.open(path) as log:
        log.create("sales", durability="fsync")
        log.create("reports", durability="fsync", cap_records=1)
        sell(log, MORNING, shift="morning")
        Bookkeeper.resume(log).catch_up(log)

    print("-- restart --")
    with penstock.open(path) as log:
        sell(log, MORNING, shift="morning")  # the till is not sure it was heard: it asks again
        sell(log, EVENING, shift="evening")
        Bookkeeper.resume(log).catch_up(log)
        gone = log.delete("sales", tag="morning")
        print(f"archive: {gone.deleted} sales deleted, {gone.count} left")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            run(scratch)
