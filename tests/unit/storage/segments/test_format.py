from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.segments.format import (
    STRIDE,
    IndexView,
    SegmentFacts,
    TagView,
    decode_index,
    encode_index,
    encode_tags,
)
from penstock.topics.bitmap import indices_of, pack_indices
from tests.unit.storage.segments.support import LOG_ID, about_of

OWNER = {"topic_id": 1, "first": 1, "log_id": LOG_ID}
ENTRIES = bytes(range(STRIDE)) * 3
tag_names = st.binary(min_size=1, max_size=4) | st.sampled_from([b"a", b"ab", b"abc", b"b"])
tag_lists = st.lists(st.none() | tag_names, max_size=30)


def index_file(entries: bytes = ENTRIES) -> tuple[bytes, int]:
    head, checksum = encode_index(
        topic_id=7,
        first=100,
        data_bytes=555,
        log_id=LOG_ID,
        about=about_of(),
        entries=entries,
    )
    return head + entries, checksum


def groups_of(tags: list[bytes | None]) -> dict[bytes, bytearray]:
    return {
        tag: bytearray(pack_indices(at for at, one in enumerate(tags) if one == tag))
        for tag in tags
        if tag is not None
    }


def test_an_index_comes_back_as_it_was_written() -> None:
    content, checksum = index_file()

    view, found = decode_index(memoryview(content))

    assert found == checksum
    assert view == IndexView(7, 100, 3, 555, LOG_ID, about_of(), memoryview(ENTRIES))


def test_entries_begin_at_a_multiple_of_eight_so_that_they_can_be_mapped() -> None:
    content, _ = index_file()

    assert (len(content) - len(ENTRIES)) % 8 == 0


def test_every_flipped_byte_of_an_index_is_found() -> None:
    content, _ = index_file()

    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        with pytest.raises(ValueError, match="index"):
            decode_index(memoryview(damaged))


def test_every_cut_of_an_index_is_found() -> None:
    content, _ = index_file()

    for cut in range(len(content)):
        with pytest.raises(ValueError, match="index"):
            decode_index(memoryview(content[:cut]))


def test_two_indices_that_differ_have_different_checksums() -> None:
    other = bytes([ENTRIES[0] ^ 1]) + ENTRIES[1:]

    assert index_file()[1] != index_file(other)[1]


@given(tags=tag_lists, value=st.binary(max_size=2) | tag_names)
def test_a_sidecar_finds_what_a_walk_over_all_records_would(
    tags: list[bytes | None], value: bytes
) -> None:
    view = TagView(memoryview(encode_tags(groups_of(tags), **OWNER)))

    for is_prefix in (False, True):
        walked = [
            at
            for at, tag in enumerate(tags)
            if tag is not None and (tag.startswith(value) if is_prefix else tag == value)
        ]
        assert list(indices_of(view.find(value, is_prefix=is_prefix))) == walked


def test_every_flipped_byte_and_every_cut_of_a_sidecar_is_found() -> None:
    content = encode_tags(groups_of([b"a", None, b"ab", b"b", b"a"]), **OWNER)

    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 0x10
        for harmed in (bytes(damaged), content[:at]):
            with pytest.raises(ValueError, match="tag sidecar"):
                TagView(memoryview(harmed))


def test_a_stem_names_the_first_seq_and_the_rewrite() -> None:
    facts = SegmentFacts(42, 10, 10, 0, 500, 1, 0, 5, 6)

    assert (facts.stem, facts.last) == ("seg-0000000000000042", 51)
    assert msgspec.structs.replace(facts, generation=3).stem == "seg-0000000000000042-3"
