from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from penstock.codec import kernel
from penstock.codec.projection_options import DATA, FRAMES, TAG
from penstock.directory.block import Block, place
from penstock.entries import RecordsAppended
from penstock.topics.bitmap import indices_of
from penstock.types import TagMatch


def text_of(length: int) -> bytes:
    return b'"' + b"x" * length + b'"'


def appended(
    first: int, datas: list[bytes], *, tag: bytes | None = None, ts: int = 5
) -> RecordsAppended:
    frames, offsets, payload = kernel.encode_appends(
        1, first, ts, 0, datas, None, None, None, tag, None
    )
    return RecordsAppended(1, first, len(datas), ts, ts, payload, frames, offsets)


def blocks_of(*batches: list[bytes]) -> list[tuple[int, Block]]:
    """(first seq, block) for each block that these batches were placed in."""
    found: list[tuple[int, Block]] = []
    seq = 1
    for batch in batches:
        run, is_new = place(appended(seq, batch), found[-1][1] if found else None)
        assert isinstance(run, Block)
        if is_new:
            found.append((seq, run))
        seq += len(batch)
    return found


def records(block: Block, start: int = 0, dead: bytearray | None = None) -> list[dict[str, object]]:
    text, _, at = block.project(start, block.count, dead, None, 10**6, 1 << 40, DATA | TAG)
    assert at == block.count
    return json.loads(b"[" + text + b"]")


@given(
    batches=st.lists(
        st.lists(st.sampled_from([1, 9, 99, 999, 9999]).map(text_of), min_size=1, max_size=4),
        max_size=12,
    )
)
def test_blocks_hold_what_was_placed_in_them_in_order(batches: list[list[bytes]]) -> None:
    blocks = blocks_of(*batches)

    found = [(r["seq"], r["data"]) for _, block in blocks for r in records(block)]
    sizes = [block.measure(0, block.count, None) for _, block in blocks]

    texts = [text for batch in batches for text in batch]
    assert found == [(seq, json.loads(text)) for seq, text in enumerate(texts, 1)]
    assert sum(count for count, _ in sizes) == len(texts)
    assert sum(size for _, size in sizes) == sum(map(len, texts))


def test_small_appends_share_a_block_and_blocks_grow() -> None:
    blocks = blocks_of(*[[b"1"]] * 500)

    counts = [block.count for _, block in blocks]
    assert counts[:-1] == sorted(counts[:-1])
    assert len(counts) < 12


def test_a_large_batch_is_kept_as_it_is() -> None:
    entry = appended(1, [b'"' + b"x" * 20_000 + b'"'])

    run, is_new = place(entry, None)

    assert is_new
    assert run.frames is entry.frames
    assert place(appended(2, [b"1"]), run)[1]


def test_a_closed_block_takes_no_more() -> None:
    run, _ = place(appended(1, [b"1"]), None)
    run.close()

    assert place(appended(2, [b"2"]), run)[1]
    assert run.count == 1


def test_a_reader_of_an_older_picture_is_not_disturbed_by_growth() -> None:
    run, _ = place(appended(1, [b"1"]), None)
    view = memoryview(run.offsets)

    _, is_new = place(appended(2, [b"2"]), run)

    assert not is_new
    assert len(view) == 4
    assert [r["data"] for r in records(run)] == [1, 2]


def test_a_part_of_it_without_the_dead() -> None:
    run, _ = place(appended(1, [b"1", b"22", b"333", b"4444"]), None)

    assert [r["seq"] for r in records(run, 1, bytearray([0b100]))] == [2, 4]
    assert run.measure(0, 4, bytearray([0b100])) == (3, 7)
    assert run.measure_some(b"\1\0\0\0\3\0\0\0") == 6


def test_tags_and_times_are_found() -> None:
    run, _ = place(appended(1, [b"1"] * 2, tag=b"a", ts=5), None)
    place(appended(3, [b"1"], tag=b"ab", ts=9), run)

    def find(value: bytes, *, is_prefix: bool) -> list[int]:
        return list(indices_of(run.find_tags(0, 3, None, value, is_prefix=is_prefix)))

    assert (find(b"a", is_prefix=False), find(b"a", is_prefix=True)) == ([0, 1], [0, 1, 2])
    assert [run.older_than(0, 3, ts) for ts in (0, 5, 6, 9, 10)] == [0, 0, 2, 2, 3]
    assert (run.first_ts, run.last_ts) == (5, 9)


def test_a_copy_for_a_segment_leaves_out_the_dead_and_the_front() -> None:
    run, _ = place(appended(1, [b"1", b"22", b"333"]), None)
    whole, rows = run.copy_live(0, 3, None, 0)

    part, part_rows = run.copy_live(1, 3, bytearray([0b100]), 0)

    assert bytes(whole) == bytes(run.frames[: run.used])
    assert (len(rows), len(part_rows)) == (72, 48)
    items, _, _ = kernel.scan(part, 0, len(part))
    assert [(item[2], item[6]) for item in items] == [(2, 1)]


def test_frames_come_out_as_they_went_in_and_only_those_of_the_tag() -> None:
    entries = [appended(seq, [text_of(seq)], tag=b"ab" if seq % 2 else b"b") for seq in (1, 2, 3)]
    block, _ = place(entries[0], None)
    for entry in entries[1:]:
        assert place(entry, block) == (block, False)
    assert isinstance(block, Block)

    whole = block.project(0, 3, None, None, 9, 1 << 40, FRAMES)
    some = block.project(0, 3, None, None, 9, 1 << 40, FRAMES, TagMatch(b"a", True))

    assert whole == (b"".join(entry.frames for entry in entries), 3, 3)
    assert some == (bytes(entries[0].frames) + bytes(entries[2].frames), 2, 3)


def test_a_record_tells_its_time() -> None:
    block, _ = place(appended(1, [b"1"], ts=5), None)
    place(appended(2, [b"2"], ts=7), block)

    assert [block.ts_of(0), block.ts_of(1)] == [5, 7]
