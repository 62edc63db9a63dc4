"""What a worker gives and gets: lease ids, names, durations, and the time that leases go by."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from penstock.clock import Clock
from penstock.engine.jobs import NO_META, RawJob, ValueJob
from penstock.errors import BatchTooLarge, InvalidArgument
from penstock.limits import LEASE_MS, NODE_BYTES_MAX, QUEUE_JOBS_MAX
from penstock.topics import names
from penstock.topics.queues import LEASE_NAME, Queue
from penstock.types import Job, LeasesChanged, QueueRules

_IDS = re.compile("lease_[1-9a-f][0-9a-f]{0,15}(?:,lease_[1-9a-f][0-9a-f]{0,15})*")
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class SteadyTime:
    """The time of the day as it was at the start, and then by a clock that nobody sets: a lease
    must neither end nor be stuck because somebody corrected the time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ms = clock.now_ms() - clock.monotonic() * 1000

    def now_ms(self) -> int:
        return int(self._offset_ms + self._clock.monotonic() * 1000)


def retry_delay_ms(rules: QueueRules, deliveries: int, roll: float) -> int:
    """How long a job rests after its nth delivery failed. `roll` is a number from 0 up to 1."""
    if not rules.retry_base_ms:
        return 0
    whole = min(rules.retry_cap_ms, rules.retry_base_ms << min(deliveries - 1, 40))
    return round(whole * (1 - rules.retry_jitter * roll))


def check_leases(lease_ids: Sequence[str]) -> None:
    """Each looks like a lease id, or InvalidArgument."""
    joined = ",".join(lease_ids)
    if joined.count("lease_") != len(lease_ids) or _IDS.fullmatch(joined) is None:
        for text in lease_ids:  # not all as they were given: which is none at all?
            lease_number(text)


def check_counts(seqs: Sequence[int], lease_ids: Sequence[str]) -> None:
    """Not too many seqs, and as many lease ids or none, or an error."""
    if len(seqs) > QUEUE_JOBS_MAX:
        raise BatchTooLarge(f"{len(seqs)} seqs in one call, at most {QUEUE_JOBS_MAX} are allowed")
    if lease_ids and len(lease_ids) != len(seqs):
        raise InvalidArgument(f"{len(seqs)} seqs and {len(lease_ids)} lease ids: give one for each")


def held_of(
    queue: Queue, node: str, seqs: Sequence[int], lease_ids: Sequence[str]
) -> tuple[tuple[int, ...], list[int]]:
    """Those of these jobs whose lease this node has, and the others."""
    if lease_ids and queue.holds_all(node, seqs, lease_ids):
        return tuple(seqs), []
    numbers = [lease_number(text) for text in lease_ids] or [0] * len(seqs)
    return queue.held(node, seqs, numbers)


def lease_number(text: str) -> int:
    """0 for no id at all."""
    if not text:
        return 0
    digits = text.removeprefix("lease_")
    is_hex = bool(digits) and not digits.strip("0123456789abcdef") and len(digits) <= 16
    if digits == text or not is_hex:
        raise InvalidArgument(f"{text!r} is no lease id: it looks like lease_1f")
    return int(digits, 16) or (1 << 64)  # there is no lease 0


def checked(jobs: Sequence[int | Job], lease_ids: Sequence[str]) -> tuple[list[int], list[str]]:
    """Seqs and lease ids of a call."""
    seqs, ids = Job.named(jobs, lease_ids)
    names.check_seqs(seqs)
    return seqs, ids


def node_name(node: object) -> str:
    """Who works: needed, so that nobody acknowledges another's job by accident."""
    text = names.short_text("node", node, NODE_BYTES_MAX)
    if not text:
        raise InvalidArgument("node must not be empty: who claims?")
    return text.decode()


def clamped(lease_ms: int) -> int:
    """Within the bounds of leases."""
    return max(LEASE_MS[0], min(LEASE_MS[1], lease_ms))


def jobs_of(entry: LeasesChanged | None, by_seq: Mapping[int, RawJob | ValueJob]) -> list[Job]:
    """What a claim answers for its entry."""
    if entry is None:
        return []
    names = map(LEASE_NAME.__mod__, itertools.count(entry.lease_id))
    jobs = map(by_seq.__getitem__, entry.seqs)
    until_ms = entry.until_ms
    return [
        Job(
            job.seq,
            name,
            until_ms,
            job.ts,
            deliveries,
            job.data,
            job.tag,
            None if job.meta is NO_META else job.meta,
        )
        for job, name, deliveries in zip(jobs, names, entry.deliveries)  # noqa: B905 - names go on
    ]


def meta_of(job: RawJob) -> dict[str, Any]:
    """A job's meta when it is an object, else nothing: what is no object takes no members."""
    try:
        return {} if job.meta is NO_META else _OBJECT.decode(job.meta)
    except msgspec.DecodeError:
        return {}  # whatever it was, it cannot take members
