"""Binary pages, read column by column."""

from __future__ import annotations

import struct

import pytest

from penstock.codec.columns import DATA
from penstock.errors import CorruptFrame
from penstock.testing.log import open_memory_log
from penstock.wire import binary_batch


@pytest.fixture
def page() -> bytes:
    """As a server would send it."""
    log = open_memory_log()
    log.append("t", ["one", "two", "three"])
    found = log.read_frames("t", 0)
    return binary_batch.encode_page({"topic": "t"}, found.frames, found.count)


def test_a_page_is_read_up_to_a_seq(page: bytes) -> None:
    head, found = binary_batch.columns_page(page, DATA, 2)

    assert head == {"topic": "t"}
    assert struct.unpack("<2Q", found.seqs) == (1, 2)
    assert found.data is not None
    assert found.data[1] == b'"one""two"'
    assert binary_batch.columns_page(page, DATA, 99)[1].count == 3
    assert binary_batch.columns_page(page, DATA, 0)[1].count == 0


def test_a_page_with_any_byte_changed_is_refused(page: bytes) -> None:
    start = page.index(b'{"topic"') + 20
    for at in range(start, len(page)):
        changed = bytes([*page[:at], page[at] ^ 1, *page[at + 1 :]])
        with pytest.raises(CorruptFrame):
            binary_batch.columns_page(changed, DATA, 99)
