"""Deletion: records below a seq, with a tag, or by their seqs are removed for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.engine import read
from penstock.engine.catalogue import Catalogue
from penstock.engine.handle import Handle
from penstock.engine.journal import Applied
from penstock.entries import RecordsDeleted
from penstock.errors import InvalidArgument, PenstockError, TopicNotFound
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.topics import validation
from penstock.types import Removed, TagMatch

_SCAN_MAX = 4096  # records of a topic that a delete by tag may look at on an event loop


def checked(before_seq: int | None, tag: Any, seqs: Sequence[int]) -> TagMatch | None:
    """Check the arguments of a delete. Returns the tag as a predicate."""
    if before_seq is None and tag is None and not seqs:
        raise InvalidArgument("nothing to delete: specify before_seq, tag or seqs")
    for seq in [*seqs, *([] if before_seq is None else [before_seq])]:
        validation.seq(seq)
    return None if tag is None else validation.tag_match(tag)


def delete(
    catalogue: Catalogue,
    handle: Handle,
    before_seq: int | None,
    match: TagMatch | None,
    seqs: Sequence[int],
) -> Removed:
    """Remove the matching records that exist now. Durable on return."""
    catalogue.check_writable(handle)
    if handle.feeds:
        catalogue.refresh(handle)
    read.prepare_delete(handle, before_seq, match, seqs)
    commit = _submit(catalogue, handle, before_seq, match, seqs, None)
    catalogue.journal.wait(handle, commit)
    catalogue.refresh(handle)
    return _removed(handle, commit)


def delete_by(
    catalogue: Catalogue, topic: str, before_seq: int | None, tag: Any, seqs: Sequence[int]
) -> Removed:
    """The same with the arguments of a caller."""
    match = checked(before_seq, tag, seqs)
    return delete(catalogue, catalogue.get(topic), before_seq, match, seqs)


def submit(
    catalogue: Catalogue,
    handle: Handle,
    before_seq: int | None,
    match: TagMatch | None,
    seqs: Sequence[int],
    done: Callable[[Removed | PenstockError], None],
    push: Callable[[Handle], None] = Handle.push,
) -> bool:
    """The same without waiting; false when it might have to read a file or scan many records.
    `push` wakes the topic's shard, now or later."""
    catalogue.check_writable(handle)
    topic = handle.topic
    if handle.feeds or topic.config.ttl_ms or not read.is_hot(handle, 0):
        return False
    if match is not None and topic.live > _SCAN_MAX:
        return False

    def committed(commit: PendingCommit) -> None:
        done(commit.error or _removed(handle, commit))

    _submit(catalogue, handle, before_seq, match, seqs, committed)
    push(handle)
    return True


def _submit(
    catalogue: Catalogue,
    handle: Handle,
    before_seq: int | None,
    match: TagMatch | None,
    seqs: Sequence[int],
    callback: Applied | None,
) -> PendingCommit:
    with handle.lock:
        if handle.is_dropped:
            raise TopicNotFound(handle.topic.name)
        # Point in time: the records numbered so far, and no later ones.
        bound = handle.next_seq - 1
        entry = RecordsDeleted(handle.topic.id, before_seq, match, tuple(seqs), bound)
        return catalogue.journal.submit(handle, (entry,), callback=callback)


def _removed(handle: Handle, commit: PendingCommit) -> Removed:
    topic = handle.topic
    if topic.queue.groups is not None:
        handle.wake()  # jobs behind the deleted ones of their group may go
    with handle.lock:
        return Removed(commit.result, topic.earliest, topic.head, topic.live, topic.bytes)
