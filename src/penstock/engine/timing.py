"""When jobs are due: at a time of the day, after a while, or by a schedule again and again.

The clock of the leases never runs backwards, and the clock on the wall may: times that callers
name are on the wall, and are turned into the other as distances from now.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.clock import Clock
from penstock.engine.batch import Batch
from penstock.engine.terms import SteadyTime
from penstock.errors import InvalidArgument
from penstock.limits import DELAY_MS_MAX, TIME_MS_MAX
from penstock.topics import names, schedules
from penstock.topics.index import Topic
from penstock.topics.queues import Queue
from penstock.types import LeaseEvent, LeasesChanged, Schedule

_SLACK_MS = 500


class Timing:
    """Safe from several threads."""

    def __init__(self, clock: Clock, steady: SteadyTime) -> None:
        self._clock = clock
        self._steady = steady

    def later(
        self,
        batch: Batch,
        deliver_at: int | None,
        delay_ms: int | None,
        cron: str | None = None,
        timezone: str | None = None,
    ) -> Batch:
        """The same jobs for when the caller wants them."""
        if cron is None:
            if timezone is not None:
                raise InvalidArgument("a time zone goes with cron")
            due_ms = self.due_ms(deliver_at, delay_ms)
            return msgspec.structs.replace(batch, due_ms=due_ms) if due_ms else batch
        if deliver_at is not None or delay_ms is not None:
            raise InvalidArgument("give one of cron, deliver_at and delay_ms")
        text = schedules.schedule(cron, timezone)
        return msgspec.structs.replace(batch, due_ms=self.next_ms(text), cron=text)

    def due_ms(self, deliver_at: int | None, delay_ms: int | None) -> int:
        """When jobs that are appended now may be handed out, by the clock of the leases; 0 for at
        once. `deliver_at` is a time of the day."""
        if deliver_at is not None:
            if delay_ms is not None:
                raise InvalidArgument("give deliver_at or delay_ms, not both")
            if names.time_ms(deliver_at) > TIME_MS_MAX:
                raise InvalidArgument("deliver_at is milliseconds since 1970, up to the year 9999")
            delay_ms = deliver_at - self._clock.now_ms()
        elif delay_ms is not None and delay_ms > DELAY_MS_MAX:
            raise InvalidArgument(f"a job may be put off by at most {DELAY_MS_MAX} ms, a year")
        if delay_ms is None or delay_ms <= 0:
            return 0
        return self._steady.now_ms() + delay_ms

    def next_ms(self, text: str) -> int:
        """When a schedule comes round next, by the clock of the leases."""
        now_ms = self._clock.now_ms()
        return self._steady.now_ms() + schedules.next_ms(text, now_ms) - now_ms

    def again(self, topic: Topic, seqs: Sequence[int]) -> list[LeasesChanged]:
        """What recurring jobs become when they are done, instead of being deleted."""
        by_text: dict[str, list[int]] = {}
        for seq in seqs:
            by_text.setdefault(topic.queue.crons[seq], []).append(seq)
        return [
            LeasesChanged(
                topic.id,
                LeaseEvent.SCHEDULED,
                tuple(some),
                node=text,
                until_ms=self.next_ms(text),
            )
            for text, some in by_text.items()
        ]

    def schedules(self, queue: Queue) -> list[Schedule]:
        """The recurring jobs. One that is out, or ready, is due now."""
        now_ms = self._clock.now_ms()
        ahead_ms = now_ms - self._steady.now_ms()
        found = []
        for seq, text in sorted(queue.crons.items()):
            until_ms = queue.delayed.get(seq)
            due_ms = now_ms
            if until_ms is not None:  # the two clocks differ by a little: the text knows better
                due_ms = schedules.next_ms(text, until_ms + ahead_ms - _SLACK_MS)
            found.append(Schedule(seq, *schedules.parts(text), due_ms))
        return found
