"""What of an entry is past a head; how copies are derived is in test_routers.py and tests/docs."""

from __future__ import annotations

import pytest

from penstock.codec import kernel
from penstock.directory.block import Block
from penstock.directory.router_replay import past
from penstock.entries import RecordsAppended


@pytest.fixture
def entry() -> RecordsAppended:
    datas = [b"%d" % number * number for number in range(1, 6)]
    frames, offsets, payload = kernel.encode_appends(
        7, 11, 1000, 0, datas, None, None, None, None, None
    )
    return RecordsAppended(7, 11, 5, 1000, 1000, payload, frames, offsets)


@pytest.mark.parametrize("head", [0, 10])
def test_all_of_it(entry: RecordsAppended, head: int) -> None:
    assert past(entry, head) is entry


@pytest.mark.parametrize("head", [15, 99])
def test_nothing_of_it(entry: RecordsAppended, head: int) -> None:
    assert past(entry, head) is None


@pytest.mark.parametrize("head", [11, 12, 13, 14])
def test_a_part_of_it_is_an_entry_of_its_own(entry: RecordsAppended, head: int) -> None:
    rest = past(entry, head)

    assert rest is not None
    assert (rest.first_seq, rest.count) == (head + 1, 15 - head)
    block = Block(rest, 0)
    assert block.measure(0, rest.count, None) == (rest.count, rest.payload_bytes)
    for index in range(rest.count):
        seq = kernel.frame_at(rest.frames, rest.offsets, 4, index)[0]
        assert seq == head + 1 + index
