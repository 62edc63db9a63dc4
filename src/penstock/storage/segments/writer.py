"""Writes a sealed segment: three files, all synced before a snapshot names them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.codec import kernel
from penstock.storage import atomic
from penstock.storage.fs import Buffer, Filesystem
from penstock.storage.segments import format as layout
from penstock.storage.segments.format import About, SegmentFacts


@dataclass(frozen=True, slots=True)
class SegmentDraft:
    """The bytes of a segment before it is written."""

    topic_id: int
    first: int
    count: int
    generation: int
    data: list[Buffer]
    entries: Buffer
    tags: dict[bytes, bytearray]
    about: About


def write(fs: Filesystem, directory: str, log_id: bytes, draft: SegmentDraft) -> SegmentFacts:
    """Write the files; durable after the caller's `sync_dir`. A crash leaves files that no
    manifest names, which a later checkpoint removes."""
    data_bytes = sum(len(part) for part in draft.data)
    head, index_sum = layout.encode_index(
        topic_id=draft.topic_id,
        first=draft.first,
        data_bytes=data_bytes,
        log_id=log_id,
        about=draft.about,
        entries=draft.entries,
    )
    tags = b""
    if draft.tags:
        tags = layout.encode_tags(
            draft.tags, topic_id=draft.topic_id, first=draft.first, log_id=log_id
        )
    facts = SegmentFacts(
        first=draft.first,
        count=draft.count,
        records=kernel.measure(b"", draft.entries, layout.STRIDE, 0, draft.count, None)[0],
        generation=draft.generation,
        data_bytes=data_bytes,
        index_sum=index_sum,
        tags_bytes=len(tags),
        first_ts=draft.about.first_ts,
        last_ts=draft.about.last_ts,
    )
    stem = f"{directory}/{facts.stem}"
    atomic.write_whole(fs, f"{stem}.data", draft.data)
    atomic.write_whole(fs, f"{stem}.idx", [head, draft.entries])
    if tags:
        atomic.write_whole(fs, f"{stem}.tags", [tags])
    return facts
