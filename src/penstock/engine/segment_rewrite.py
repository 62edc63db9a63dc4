"""Rewrites segments that are mostly dead as smaller ones, and those with a damaged index or tags.

As in `seal`, the bytes are copied without the topic's lock, and the new segment replaces the span.
Maintenance thread only.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.directory.segments import SegmentShelf, draft_of
from penstock.engine.handle import Handle
from penstock.engine.seal import swap
from penstock.errors import ColdUnavailable, CorruptFrame, StorageError
from penstock.storage.segments.reader import Segment
from penstock.topics.spans import Span


def rewrite(
    handle: Handle,
    shelf: SegmentShelf,
    *,
    dead_share: float,
    on_damage: Callable[[StorageError], None],
) -> int:
    """Rewrite segments that are mostly dead or whose derived files are damaged. An unreadable
    segment is reported and not changed: only `repair` handles damage."""
    made = 0
    with handle.lock:
        topic = handle.topic
        chosen = [span for span in topic.spans if _wants_rewrite(span, dead_share)]
        copies = [span.copy() for span in chosen]
    for span, copy in zip(chosen, copies, strict=True):
        try:
            draft = draft_of(topic, [copy])
        except ColdUnavailable:
            continue  # later
        except CorruptFrame as error:
            if isinstance(span.run, Segment):
                span.run.is_unreadable = True
            on_damage(error)
            continue
        segment = shelf.write(topic.id, draft)
        made += 1
        with handle.lock:
            swap(topic, [span], segment)
    return made


def _wants_rewrite(span: Span, dead_share: float) -> bool:
    run = span.run
    if not isinstance(run, Segment) or not span.live or run.is_unreadable:
        return False
    if run.is_cold:  # it goes when all of it is dead; its index and tags the mover brings back
        return run.must_rewrite
    present = run.facts.records
    gone = present - span.live
    return run.needs_rewrite or (gone > 0 and gone >= present * dead_share)
