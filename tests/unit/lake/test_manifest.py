from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from penstock.errors import FormatTooNew, StorageError
from penstock.lake.evolution import Column
from penstock.lake.manifest import (
    ANCESTORS_MAX,
    DataFile,
    Manifest,
    ReadPosition,
    decode,
    digest_text,
    encode,
    following,
    id_of,
    name_of,
    version_of,
)
from penstock.types import Offset
from tests.support.golden_directories import unpack

FILE = DataFile("rows", "rows/topic=a/day=2026-11-16/x.parquet", 3, 99, "ff", topic="a", epoch=1)
WHOLE = Manifest(
    table="orders",
    version=7,
    act="ingest",
    made_ms=5,
    offsets={"a": ReadPosition(1, 41)},
    columns=[Column("id", "long", "id", True)],
    shapes=[{"id": "int"}, {"id": "long"}],
    inputs={"deletes": "3"},
    files=[FILE],
)


def test_a_manifest_comes_back_as_it_was() -> None:
    assert decode(encode(WHOLE), "m") == WHOLE


def test_offsets_are_written_as_everywhere() -> None:
    assert b'"offsets":{"a":{"epoch":1,"seq":41}}' in encode(WHOLE)


def test_a_position_is_an_offset_and_says_only_of_an_ended_topic_that_it_has_ended() -> None:
    ended = ReadPosition(1, 41, is_ended=True)
    held = msgspec.structs.replace(WHOLE, offsets={"a": ReadPosition(2, 3), "b": ended})

    text = encode(held)

    assert isinstance(ended, Offset)
    assert b'"offsets":{"a":{"epoch":2,"seq":3},"b":{"epoch":1,"seq":41,"is_ended":true}}' in text
    found = decode(text, "m").offsets
    assert found == held.offsets
    assert (bool(found["a"].is_ended), found["b"].is_ended) == (False, True)


def test_the_manifests_of_an_earlier_commit_are_read_and_written_byte_for_byte(
    tmp_path: Path,
) -> None:
    paths = sorted(unpack("lake", tmp_path).rglob("_manifests/*.json"))

    assert len(paths) == 9
    for path in paths:
        text = path.read_bytes()
        found = decode(text, str(path))
        assert encode(found) == text
        assert all(type(one) is ReadPosition for one in found.offsets.values())
        assert id_of(found) == digest_text(text.partition(b"\n")[0])
    assert {len(decode(path.read_bytes(), "m").offsets) for path in paths} != {0}


@pytest.mark.parametrize("at", range(0, len(encode(WHOLE)), 7))
def test_a_changed_byte_is_noticed(at: int) -> None:
    data = bytearray(encode(WHOLE))
    data[at] ^= 1

    with pytest.raises(StorageError, match="manifest"):
        decode(bytes(data), "m")


def test_every_cut_is_noticed() -> None:
    data = encode(WHOLE)

    for size in range(len(data)):
        with pytest.raises(StorageError):
            decode(data[:size], "m")


def test_a_later_format_is_left_alone() -> None:
    later = Manifest(table="a", version=1, act="x", made_ms=0, format=2)

    with pytest.raises(FormatTooNew):
        decode(encode(later), "m")


def test_names_are_in_the_order_of_versions() -> None:
    names = [name_of(version) for version in (1, 9, 10, 12345)]

    assert names == sorted(names)
    assert [version_of(name) for name in names] == [1, 9, 10, 12345]
    assert version_of("00000000000000000001.json.tmp") is None


def test_a_manifest_knows_its_parts_and_its_shape() -> None:
    assert WHOLE.rows("rows") == 3
    assert WHOLE.of("quarantine") == []
    assert WHOLE.shape == 1
    assert digest_text(b"") == "2d06800538d394c2"


def test_a_commit_knows_those_before_it_and_is_told_from_another_of_its_number() -> None:
    one = following(WHOLE, "ingest", made_ms=6)
    other = following(WHOLE, "ingest", made_ms=7)

    assert (one.version, one.ancestors) == (8, [id_of(WHOLE)])
    assert following(one, "compact", made_ms=8).ancestors == [id_of(WHOLE), id_of(one)]
    assert id_of(one) != id_of(other)
    assert id_of(decode(encode(one), "m")) == id_of(one)


def test_ancestors_keep_the_name_that_they_have_on_disk() -> None:
    """A lake of an earlier version is continued, not made anew."""
    assert b"trail" not in encode(WHOLE)  # nothing is written while there are none
    assert b'"trail":["%b"]' % id_of(WHOLE).encode() in encode(following(WHOLE, "x", made_ms=6))


def test_only_so_many_ancestors_are_kept() -> None:
    held = Manifest(table="a", version=0, act="none", made_ms=0)
    for number in range(ANCESTORS_MAX + 5):
        held = following(held, "ingest", made_ms=number)

    assert len(held.ancestors) == ANCESTORS_MAX
    assert id_of(Manifest(table="a", version=0, act="none", made_ms=0)) == ""
