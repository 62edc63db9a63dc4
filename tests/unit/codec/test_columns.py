"""Columns as a value: what of the kernel's answer is what."""

from __future__ import annotations

import struct

from penstock.codec import kernel
from penstock.codec.columns import DATA, TAG, ColumnsPage, columns_of
from penstock.types import Offset, TagMatch
from tests.unit.codec.support import FIRST, TOPIC, TS, Record, encode


def test_only_what_was_asked_for_is_there() -> None:
    frames, offsets, _ = encode(kernel, [Record(b"1", tag=b"x"), Record(b"22")])

    found, at, status = columns_of(
        frames, offsets, 4, 0, 2, None, 9, 999, TAG | DATA, first_seq=FIRST, topic_id=TOPIC
    )

    assert (found.count, at, status) == (2, 2, 0)
    assert struct.unpack("<2Q", found.seqs) == (FIRST, FIRST + 1)
    assert struct.unpack("<2Q", found.tss) == (TS, TS)
    assert (found.node, found.meta) == (None, None)
    assert found.tag == (struct.pack("<3I", 0, 1, 1), b"x", b"\1")
    assert found.data == (struct.pack("<3I", 0, 1, 3), b"122", b"\3")


def test_a_tag_chooses_records() -> None:
    frames, offsets, _ = encode(kernel, [Record(b"1", tag=b"x"), Record(b"2", tag=b"xy")])

    def chosen(match: TagMatch) -> int:
        found, _, _ = columns_of(
            frames, offsets, 4, 0, 2, None, 9, 99, 0, first_seq=FIRST, topic_id=TOPIC, match=match
        )
        return found.count

    assert chosen(TagMatch(b"x", False)) == 1
    assert chosen(TagMatch(b"x", True)) == 2


def test_a_page_says_how_to_go_on() -> None:
    frames, offsets, _ = encode(kernel, [Record(b"1")])
    found, _, _ = columns_of(
        frames, offsets, 4, 0, 1, None, 9, 99, 0, first_seq=FIRST, topic_id=TOPIC
    )

    page = ColumnsPage(found, None, FIRST, FIRST, 1, True, 7)

    assert (page.columns.count, page.offset) == (1, Offset(7, FIRST))
