"""The arguments and answers of workers: lease ids, names, durations."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from penstock.engine.job_reading import NO_META, RawJob, ValueJob
from penstock.entries import LeasesChanged
from penstock.errors import BatchTooLarge, InvalidArgument
from penstock.limits import LEASE_MS, NODE_BYTES_MAX, QUEUE_JOBS_MAX
from penstock.topics import validation
from penstock.topics.leases import Queue, lease_names
from penstock.types import Job

_IDS = re.compile("lease_[1-9a-f][0-9a-f]{0,15}(?:,lease_[1-9a-f][0-9a-f]{0,15})*")
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def check_leases(lease_ids: Sequence[str]) -> None:
    """Parse lease ids, or raise InvalidArgument."""
    joined = ",".join(lease_ids)
    if joined.count("lease_") != len(lease_ids) or _IDS.fullmatch(joined) is None:
        for text in lease_ids:  # not all as they were given: which is none at all?
            lease_number(text)


def check_counts(seqs: Sequence[int], lease_ids: Sequence[str]) -> None:
    """Check that there are not too many seqs, and one lease id for each or none."""
    if len(seqs) > QUEUE_JOBS_MAX:
        raise BatchTooLarge(f"{len(seqs)} seqs in one call, at most {QUEUE_JOBS_MAX} are allowed")
    if lease_ids and len(lease_ids) != len(seqs):
        raise InvalidArgument(f"{len(seqs)} seqs and {len(lease_ids)} lease ids: expected one each")


def held_of(
    queue: Queue, node: str, seqs: Sequence[int], lease_ids: Sequence[str]
) -> tuple[tuple[int, ...], list[int]]:
    """The jobs that this node has leased, and the other ones."""
    if lease_ids and queue.holds_all(node, seqs, lease_ids):
        return tuple(seqs), []
    numbers = [lease_number(text) for text in lease_ids] or [0] * len(seqs)
    return queue.held(node, seqs, numbers)


def lease_number(text: str) -> int:
    """0 without an id."""
    if not text:
        return 0
    digits = text.removeprefix("lease_")
    is_hex = bool(digits) and not digits.strip("0123456789abcdef") and len(digits) <= 16
    if digits == text or not is_hex:
        raise InvalidArgument(f"invalid lease id {text!r}: expected the form lease_1f")
    return int(digits, 16) or (1 << 64)  # there is no lease 0


def checked(jobs: Sequence[int | Job], lease_ids: Sequence[str]) -> tuple[list[int], list[str]]:
    """Seqs and lease ids of a call."""
    seqs, ids = Job.named(jobs, lease_ids)
    validation.check_seqs(seqs)
    return seqs, ids


def node_name(node: object) -> str:
    """The name of a worker. It is required, so that no worker acknowledges the job of another by
    accident."""
    text = validation.short_text("node", node, NODE_BYTES_MAX)
    if not text:
        raise InvalidArgument("node must not be empty: expected the name of the worker")
    return text.decode()


def clamped(lease_ms: int) -> int:
    """The duration within the bounds of leases."""
    return max(LEASE_MS[0], min(LEASE_MS[1], lease_ms))


def jobs_of(entry: LeasesChanged | None, by_seq: Mapping[int, RawJob | ValueJob]) -> list[Job]:
    """The answer of a claim for its entry."""
    if entry is None:
        return []
    names = lease_names(tuple(range(entry.lease_id, entry.lease_id + len(entry.seqs))))
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
        for job, name, deliveries in zip(jobs, names, entry.deliveries, strict=True)
    ]


def meta_of(job: RawJob) -> dict[str, Any]:
    """The meta of a job if it is an object, else an empty one: members cannot be added to other
    values."""
    try:
        return {} if job.meta is NO_META else _OBJECT.decode(job.meta)
    except msgspec.DecodeError:
        return {}  # whatever it was, it cannot take members
