"""What a worker gives and gets: lease ids, names, durations, and the time that leases go by."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from penstock.clock import Clock
from penstock.engine.jobs import NO_META, RawJob, ValueJob
from penstock.errors import BatchTooLarge, InvalidArgument
from penstock.limits import LEASE_MS, NODE_BYTES_MAX, QUEUE_JOBS_MAX
from penstock.topics import names
from penstock.types import Job, LeasesChanged, QueueRules

_IDS = re.compile("lease_[1-9a-f][0-9a-f]{0,15}(?:,lease_[1-9a-f][0-9a-f]{0,15})*")
_OBJECT = msgspec.json.Decoder(dict[str, Any])
_TS = attrgetter("ts")
_DATA = attrgetter("data")
_TAG = attrgetter("tag")
_META = attrgetter("meta")


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


def lease_numbers(seqs: Sequence[int], lease_ids: Sequence[str]) -> list[int]:
    """The numbers behind lease ids; 0 where none is given."""
    numbers = numbers_of(lease_ids)
    if len(seqs) > QUEUE_JOBS_MAX:
        raise BatchTooLarge(f"{len(seqs)} seqs in one call, at most {QUEUE_JOBS_MAX} are allowed")
    check_number(seqs, numbers)
    return numbers or [0] * len(seqs)


def check_number(seqs: Sequence[int], numbers: Sequence[int]) -> None:
    """As many lease ids as seqs, or none, or InvalidArgument."""
    if numbers and len(numbers) != len(seqs):
        raise InvalidArgument(f"{len(seqs)} seqs and {len(numbers)} lease ids: give one for each")


def numbers_of(lease_ids: Sequence[str]) -> list[int]:
    """The numbers behind lease ids, or InvalidArgument."""
    joined = ",".join(lease_ids)
    if joined.count("lease_") == len(lease_ids) and _IDS.fullmatch(joined) is not None:
        digits = joined.replace("lease_", "").split(",")  # all as they were given, as a rule
        return list(map(int, digits, itertools.repeat(16)))
    return [lease_number(text) for text in lease_ids]


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
    jobs = list(map(by_seq.__getitem__, entry.seqs))
    lease_ids = range(entry.lease_id, entry.lease_id + len(jobs))
    return list(
        map(
            Job,
            entry.seqs,
            map("lease_%x".__mod__, lease_ids),
            itertools.repeat(entry.until_ms),
            map(_TS, jobs),
            entry.deliveries,
            map(_DATA, jobs),
            map(_TAG, jobs),
            [None if meta is NO_META else meta for meta in map(_META, jobs)],
        )
    )


def meta_of(job: RawJob) -> dict[str, Any]:
    """A job's meta when it is an object, else nothing: what is no object takes no members."""
    try:
        return {} if job.meta is NO_META else _OBJECT.decode(job.meta)
    except msgspec.DecodeError:
        return {}  # whatever it was, it cannot take members
