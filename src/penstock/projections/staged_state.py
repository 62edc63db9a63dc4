"""A state that was made elsewhere, on its way into the place of a runner's own."""

from __future__ import annotations

from typing import Final

from penstock.errors import InvalidArgument
from penstock.projections.projection import Projection, Tail
from penstock.types import Offset

_PAGE_RECORDS: Final = 10_000


class StagedState:
    """Folds what came after the state. It has no lock: its runner calls it, one thread at a time.

    Unlike a runner it goes past no loss: the state before it may have the records that are gone.
    """

    def __init__(self, projection: Projection, offset: Offset, tail: Tail, bytes_max: int) -> None:
        self.projection = projection
        self.applied = offset
        self._tail = tail
        self._bytes_max = bytes_max
        self.check()

    def check(self) -> None:
        """Raise InvalidArgument unless the state belongs to the topic as it is now."""
        head = self._tail.head
        topic = repr(self._tail.topic)
        if head is None:
            raise InvalidArgument(f"the snapshot is of topic {topic}, which does not exist here")
        if head.epoch != self.applied.epoch:
            raise InvalidArgument(
                f"the snapshot has epoch {self.applied.epoch} of topic {topic}, and the topic has "
                f"epoch {head.epoch}: it was created again"
            )
        if head.seq < self.applied.seq:
            raise InvalidArgument(
                f"the snapshot is newer than the log: it contains topic {topic} up to seq "
                f"{self.applied.seq}, and the head is {head.seq}"
            )

    def catch_up(self) -> int:
        """Fold up to the head; how many records that were."""
        count = 0
        while True:
            page = self._tail.read_columns(self.applied.seq, _PAGE_RECORDS, self.projection.wanted)
            if page is None or page.epoch != self.applied.epoch:
                self.check()
                raise InvalidArgument(f"topic {self._tail.topic!r} was created again meanwhile")
            if page.gap is not None:
                raise InvalidArgument(
                    f"the snapshot ends at seq {self.applied.seq}, and the records "
                    f"{page.gap.first} to {page.gap.last} after it were lost "
                    f"({page.gap.reason}): build a newer one"
                )
            if page.columns.count:
                self.projection.apply(page.columns)
                count += page.columns.count
            if self.projection.bytes > self._bytes_max:
                raise InvalidArgument(
                    f"the snapshot needs {self.projection.bytes} bytes of memory, and may have "
                    f"{self._bytes_max}"
                )
            self.applied = page.offset
            if page.caught_up:
                return count
