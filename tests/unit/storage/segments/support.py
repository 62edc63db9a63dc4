"""Small segments on a disk in memory."""

from __future__ import annotations

import msgspec

from penstock.codec import kernel
from penstock.storage.segments import writer
from penstock.storage.segments.format import About, SegmentFacts
from penstock.storage.segments.maps import MapCache
from penstock.storage.segments.reader import Segment
from penstock.storage.segments.writer import SegmentDraft
from penstock.testing import MemoryFilesystem
from penstock.types import TopicConfig

DIRECTORY = "/data/topics/00000007"
TOPIC = 7
FIRST = 100
LOG_ID = bytes(range(16))
TAGS = ["a", None, "ab", "b", "a", None]
DATAS = [b"%d" % (10**n) for n in range(len(TAGS))]


def about_of(first_ts: int = 1000, last_ts: int = 1005) -> About:
    config = msgspec.Raw(msgspec.json.encode(TopicConfig(cap_records=9)))
    return About("orders", TOPIC, config, 3, 2, 1, first_ts, last_ts)


def draft_of(
    datas: list[bytes] = DATAS,
    tags: list[str | None] = TAGS,
    *,
    dead: tuple[int, ...] = (),
    generation: int = 0,
) -> SegmentDraft:
    """One record per data, ts counting up from 1000; the dead ones are left out."""
    parts, offsets, at = [], b"", 0
    for index, (data, tag) in enumerate(zip(datas, tags, strict=True)):
        label = tag.encode() if tag else None
        frame, _, _ = kernel.encode_appends(
            TOPIC, FIRST + index, 1000 + index, 0, [data], None, None, None, label, None
        )
        parts.append(frame)
        offsets += at.to_bytes(4, "little")
        at += len(frame)
    frames, count = b"".join(parts), len(datas)
    bits = bytearray(sum(1 << index for index in dead).to_bytes(count // 8 + 1, "little"))
    kept, entries = kernel.copy_live(frames, offsets, 4, 0, count, bits, 0)
    groups: dict[bytes, bytearray] = {}
    kernel.group_tags(frames, offsets, 4, 0, count, bits, 0, groups)
    return SegmentDraft(TOPIC, FIRST, count, generation, [kept], entries, groups, about_of())


def written(draft: SegmentDraft | None = None) -> tuple[MemoryFilesystem, SegmentFacts]:
    fs = MemoryFilesystem()
    fs.make_dirs(DIRECTORY)
    facts = writer.write(fs, DIRECTORY, LOG_ID, draft or draft_of())
    fs.sync_dir(DIRECTORY)
    return fs, facts


def opened(fs: MemoryFilesystem, facts: SegmentFacts) -> Segment:
    """As a process that has nothing mapped yet would see it."""
    return Segment(fs, MapCache(16), DIRECTORY, TOPIC, LOG_ID, facts)
