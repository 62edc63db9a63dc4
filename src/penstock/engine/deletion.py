"""Deletion: records below a seq, with a tag, or by their seqs are removed for good."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.engine import read
from penstock.engine.catalogue import Catalogue
from penstock.engine.handle import Handle
from penstock.errors import TopicNotFound
from penstock.types import RecordsDeleted, Removed, TagMatch


def delete(
    catalogue: Catalogue,
    handle: Handle,
    before_seq: int | None,
    match: TagMatch | None,
    seqs: Sequence[int],
) -> Removed:
    """Remove what exists now. Durable on return."""
    catalogue.check_writable(handle)
    if handle.feeds:
        catalogue.refresh(handle)
    read.prepare_delete(handle, before_seq, match, seqs)
    with handle.lock:
        if handle.is_dropped:
            raise TopicNotFound(handle.topic.name)
        # Point in time: what is numbered so far, and nothing that comes later.
        bound = handle.next_seq - 1
        entry = RecordsDeleted(handle.topic.id, before_seq, match, tuple(seqs), bound)
        ticket = catalogue.stage(handle, entry)
    catalogue.finish(handle, ticket)
    if handle.topic.queue.groups is not None:
        handle.wake()  # jobs behind the deleted ones of their group may go
    info = catalogue.info(handle)
    return Removed(ticket.result, info.earliest_seq, info.head_seq, info.count, info.bytes)
