"""Moves dead letters back to their queues, or to another one.

Each is appended with its own idempotency key and deleted afterwards. A crash in between leaves it
in both topics; the next redrive makes no second job of it, as long as the target stores the key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from penstock import limits
from penstock.engine.batch import Batch
from penstock.engine.handle import Handle
from penstock.engine.job_reading import RawJob, raw, read_jobs
from penstock.engine.lease_options import meta_of
from penstock.errors import InvalidArgument, PenstockError
from penstock.topics import read_plan
from penstock.types import Appended, Redriven, TagMatch

_encode = msgspec.json.Encoder().encode
_FROM: Final = "$dead_letter_from"
_MARKS: Final = (_FROM, "$dead_letter_deliveries", "$dead_letter_src_seq")
_SCAN_MAX: Final = 100_000  # records of one call that a filter may pass over


def redrive(
    dead: Handle,
    append: Callable[[str, Batch], Appended],
    remove: Callable[[list[int]], object],
    *,
    to: str | None,
    seqs: list[int],
    match: TagMatch | None,
    after: int,
    limit: int,
    dry_run: bool,
    may_go: Callable[[str], bool],
) -> Redriven:
    """Move up to `limit` records past `after`, oldest first: those in `seqs`, or those whose tag
    matches, or all. `may_go` returns whether a target is allowed."""
    chosen, last = _chosen(dead, seqs, match, after, min(limit, limits.QUEUE_JOBS_MAX))
    jobs, damage = read_jobs(dead, chosen, limits.READ_BYTES_MAX, raw)
    moved: list[int] = []
    failed: dict[int, str] = {}
    for job in jobs:
        try:
            _move(dead, job, to, append, may_go, dry_run=dry_run)
        except PenstockError as error:
            failed[job.seq] = str(error)
        else:
            moved.append(job.seq)
    if damage is not None:
        failed |= {seq: str(damage) for seq in chosen if seq not in {job.seq for job in jobs}}
    if moved and not dry_run:
        remove(moved)
    read_to = last if damage is not None else max((job.seq for job in jobs), default=last)
    return Redriven(dead.topic.name, len(moved), failed, read_to, read_to >= dead.topic.head)


def _chosen(
    dead: Handle, seqs: list[int], match: TagMatch | None, after: int, limit: int
) -> tuple[list[int], int]:
    """Seqs to move, ascending, and the last seq that was examined."""
    with dead.lock:
        topic = dead.topic
        if seqs:
            wanted = sorted({seq for seq in seqs if seq > after and read_plan.is_live(topic, seq)})
            return wanted[:limit], wanted[limit - 1] if len(wanted) > limit else topic.head
        found: list[int] = []
        looked = after
        tagged = None if match is None else read_plan.tagged(topic, after, match)
        for number, seq in enumerate(read_plan.live_past(topic, after)):
            if len(found) == limit or number == _SCAN_MAX:
                return found, looked
            looked = seq
            if tagged is None or seq in tagged:
                found.append(seq)
        return found, topic.head


def _move(
    dead: Handle,
    job: RawJob,
    to: str | None,
    append: Callable[[str, Batch], Appended],
    may_go: Callable[[str], bool],
    *,
    dry_run: bool,
) -> None:
    meta = meta_of(job)
    target = to or meta.get(_FROM)
    if not isinstance(target, str):
        raise InvalidArgument("the queue where it came from is unknown: specify a queue")
    if target == dead.topic.name:
        raise InvalidArgument("a topic cannot be redriven into itself")
    if not may_go(target):
        raise InvalidArgument(f"this key may not write to {target!r}")
    if dry_run:
        return
    kept = {name: value for name, value in meta.items() if name not in _MARKS}
    text = _encode(kept) if kept else None
    data = bytes(job.data)
    batch = Batch(
        [data],
        len(data) + len(text or b""),
        [text] if text else None,
        [job.tag.encode()] if job.tag else None,
        [job.node.encode()] if job.node else None,
        key=f"redrive:{dead.topic.id}:{job.seq}".encode(),
    )
    append(target, batch)
