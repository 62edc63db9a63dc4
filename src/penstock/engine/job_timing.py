"""When jobs are due: at a time, after a delay, repeatedly by a schedule, or again after a failure.

The clock of the leases never goes back; the wall clock may. Callers give wall-clock times, which
are converted to the lease clock as distances from now.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from penstock.append_options import AppendOptions
from penstock.clock import Clock
from penstock.engine.batch import Batch
from penstock.engine.lease_clock import LeaseClock
from penstock.entries import LeaseEvent, LeasesChanged
from penstock.errors import InvalidArgument
from penstock.limits import DELAY_MS_MAX, TIME_MS_MAX
from penstock.topics import cron as crons
from penstock.topics import validation
from penstock.topics.leases import Queue
from penstock.topics.topic import Topic
from penstock.types import QueueRules, Schedule

_SLACK_MS = 500


class JobTiming:
    """Safe from several threads."""

    def __init__(self, clock: Clock, lease_clock: LeaseClock) -> None:
        self._clock = clock
        self._lease_clock = lease_clock

    def later(self, batch: Batch, options: AppendOptions) -> Batch:
        """The batch with the due time or the schedule that the caller wants."""
        if options.cron is None:
            if options.timezone is not None:
                raise InvalidArgument("timezone needs cron")
            due_ms = self.due_ms(options.deliver_at, options.delay_ms)
            return msgspec.structs.replace(batch, due_ms=due_ms) if due_ms else batch
        if options.deliver_at is not None or options.delay_ms is not None:
            raise InvalidArgument("specify only one of cron, deliver_at and delay_ms")
        text = crons.schedule(options.cron, options.timezone)
        return msgspec.structs.replace(batch, due_ms=self.next_ms(text), cron=text)

    def due_ms(self, deliver_at: int | None, delay_ms: int | None) -> int:
        """When jobs that are appended now may be delivered, by the clock of the leases; 0: at once.
        `deliver_at` is a wall-clock time."""
        if deliver_at is not None:
            if delay_ms is not None:
                raise InvalidArgument("specify deliver_at or delay_ms, not both")
            if validation.time_ms(deliver_at) > TIME_MS_MAX:
                raise InvalidArgument(
                    "invalid deliver_at: expected ms since 1970, at most year 9999"
                )
            delay_ms = deliver_at - self._clock.now_ms()
        elif delay_ms is not None and delay_ms > DELAY_MS_MAX:
            raise InvalidArgument(f"delay too long: expected at most {DELAY_MS_MAX} ms, one year")
        if delay_ms is None or delay_ms <= 0:
            return 0
        return self._lease_clock.now_ms() + delay_ms

    def now_ms(self) -> int:
        """By the clock of the leases."""
        return self._lease_clock.now_ms()

    def next_ms(self, text: str) -> int:
        """The next time of a schedule, by the clock of the leases."""
        now_ms = self._clock.now_ms()
        return self._lease_clock.now_ms() + crons.next_ms(text, now_ms) - now_ms

    def again(self, topic: Topic, seqs: Sequence[int]) -> list[LeasesChanged]:
        """The entries that schedule done recurring jobs again, instead of deleting them."""
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
        """The recurring jobs. One that is in flight or ready is due now."""
        now_ms = self._clock.now_ms()
        ahead_ms = now_ms - self._lease_clock.now_ms()
        found = []
        for seq, text in sorted(queue.crons.items()):
            until_ms = queue.delayed.get(seq)
            due_ms = now_ms
            if until_ms is not None:  # the two clocks differ by a little: the text knows better
                due_ms = crons.next_ms(text, until_ms + ahead_ms - _SLACK_MS)
            found.append(Schedule(seq, *crons.parts(text), due_ms))
        return found


def retry_delay_ms(rules: QueueRules, deliveries: int, roll: float) -> int:
    """The retry delay after the nth delivery failed. `roll` is a random number from 0 up to 1."""
    if not rules.retry_base_ms:
        return 0
    whole = min(rules.retry_cap_ms, rules.retry_base_ms << min(deliveries - 1, 40))
    return round(whole * (1 - rules.retry_jitter * roll))
