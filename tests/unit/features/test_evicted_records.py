"""Records of keys: for every operator they become the piece again, whichever are picked."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from penstock.features.evicted_records import RecordCodec, bytes_of, key_of, keys_of
from penstock.features.part_snapshot import encode
from penstock.features.table_features import TableFeatures
from penstock.features.table_part import TablePart
from tests.support.seeds import new_seed
from tests.unit.features.bounded_rig import batch, plan_of, texts_of


@pytest.fixture(scope="module", params=[None, "60s"])
def part(request: pytest.FixtureRequest) -> TablePart:
    found = TablePart(plan_of(request.param))
    for _ in range(3):
        found.apply(batch(texts_of(Random(new_seed()), 150)))
    return found


def codec_of(part: TablePart) -> RecordCodec:
    has_times = part.plan.cold_after_ms is not None
    return RecordCodec(TableFeatures(part.plan.features), has_times=has_times)


def test_records_become_the_piece_that_they_came_from(part: TablePart) -> None:
    codec = codec_of(part)
    piece = part._piece(part._keys.slots(), part._events.largest)

    words, starts = codec.encode(piece)
    found = codec.decode(words, starts[:-1])

    del piece["keys"]["slots"]
    assert encode(found) == encode({"keys": {**found["keys"], **piece["keys"]}, **piece})
    assert list(found) == list(piece)


def test_some_records_in_any_order_are_the_piece_of_their_keys(part: TablePart) -> None:
    codec = codec_of(part)
    slots = part._keys.slots()
    words, starts = codec.encode(part._piece(slots, part._events.largest))
    picked = Random(new_seed()).sample(range(len(slots)), 7)

    found = codec.decode(words, starts[picked])

    expected = part._piece(slots[picked], part._events.largest)
    found["keys"]["slots"] = slots[picked]
    for group, members in expected.items():
        assert encode({group: {name: found[group][name] for name in members}}) == encode(
            {group: members}
        )


def test_a_record_says_its_key_and_its_length(part: TablePart) -> None:
    piece = part._piece(part._keys.slots(), part._events.largest)
    words, starts = codec_of(part).encode(piece)
    keys = keys_of(piece["keys"]["sizes"], piece["keys"]["keys"])

    for key, start, end in zip(keys, starts.tolist(), starts.tolist()[1:], strict=False):
        record = words[start:end].tobytes()
        assert key_of(record) == key
        assert bytes_of(record[:16]) == len(record)
        assert len(record) % 16 == 0


def test_no_keys_are_no_records(part: TablePart) -> None:
    codec = codec_of(part)
    words, starts = codec.encode(part._piece(np.empty(0, np.int64), part._events.largest))

    assert (len(words), starts.tolist()) == (0, [0])
    assert not len(codec.decode(words, starts[:-1])["keys"]["sizes"])
