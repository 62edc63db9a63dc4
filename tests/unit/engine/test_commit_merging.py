"""Entries of one group commit: fewer of them, the same records."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.codec import kernel
from penstock.directory.block import ALONE_BYTES
from penstock.engine.batch import prepare
from penstock.engine.commit_merging import merged
from penstock.entries import RecordsAppended


def entry(first: int, values: list[int], key: bytes) -> RecordsAppended:
    batch = prepare(values, tag=None, node=None, key=None)
    frames, offsets, payload = batch.encode(7, first, 1000 + first, 0)
    ts = 1000 + first
    return RecordsAppended(7, first, len(values), ts, ts, payload, frames, offsets, key)


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=12))
def test_merged_entries_hold_the_same_frames_at_the_same_offsets(
    sizes: list[tuple[int, bool]],
) -> None:
    entries, first = [], 1
    for count, has_key in sizes:
        values = list(range(first, first + count))
        entries.append(entry(first, values, b"key%d" % first if has_key else b""))
        first += count

    found = merged(entries)

    assert b"".join(bytes(one.frames) for one in found) == b"".join(
        bytes(one.frames) for one in entries
    )
    assert [one.key for one in found if one.key] == [one.key for one in entries if one.key]
    assert sum(one.count for one in found) == first - 1
    assert sum(one.payload_bytes for one in found) == sum(one.payload_bytes for one in entries)
    for one in found:
        items, _, _ = kernel.scan(one.frames, 0, len(one.frames))
        ((_, _, seq, ts, _, _, count, _, offsets, last_ts),) = items
        assert (seq, ts, count, last_ts) == (one.first_seq, one.first_ts, one.count, one.last_ts)
        assert bytes(offsets) == bytes(one.offsets)


def test_a_large_entry_is_not_copied_and_divides_its_neighbours() -> None:
    large = entry(3, [10**1000] * 20, b"")
    entries = [entry(1, [1], b""), entry(2, [2], b""), large, entry(23, [3], b"")]

    found = merged(entries)

    assert len(large.frames) >= ALONE_BYTES
    assert [(one.first_seq, one.count) for one in found] == [(1, 2), (3, 20), (23, 1)]
    assert found[1] is large
