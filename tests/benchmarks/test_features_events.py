"""The events and the definition of the feature benchmark, as each server gets them."""

from __future__ import annotations

import struct

import msgspec
import pytest

from benchmarks import features_events as made
from benchmarks.server_process import DidNotStart
from penstock.features.definition import Definition


@pytest.mark.parametrize("features", [made.PLAIN, made.SKETCHES], ids=["plain", "sketches"])
def test_ten_features_are_a_definition_and_the_same_for_the_peer(
    features: dict[str, made.Feature],
) -> None:
    document = made.definition(features)
    frame = made.register_frame(features)

    plan = Definition.parse(msgspec.json.encode(document)).plan(made.TABLE)
    assert [one.name for one in plan.features] == list(features)
    assert len(features) == 10
    table = msgspec.json.decode(frame[made.FRAME_HEAD_BYTES :])["nodes"][1]
    assert list(table["ops"][0]["agg"]) == list(features)


def test_each_batch_has_one_event_of_the_marked_user() -> None:
    batches = made.batches(2, 50)
    again = made.marked_by(batches, "other")

    for batch, other in zip(batches, again, strict=True):
        users = [msgspec.json.decode(event)["user"] for event in batch]
        assert len(batch) == made.BATCH
        assert users.count(made.MARKED) == 1
        assert msgspec.json.decode(other[0])["user"] == "other"
        assert other[1:] == batch[1:]


def test_every_key_has_one_event() -> None:
    users = [
        msgspec.json.decode(event)["user"] for batch in made.each_key(2_000) for event in batch
    ]

    assert len(users) == len({*users}) == 2_000


def test_frames_hold_their_length_and_one_event_each() -> None:
    frames = made.push_frames([b'{"a":1}', b'{"a":22}'])

    size, operation, kind = struct.unpack_from(">IHB", frames)
    first = frames[made.FRAME_HEAD_BYTES : 4 + size]
    assert (operation, kind) == (0x10, 1)
    assert msgspec.json.decode(first) == {"event": made.EVENT, "body": {"a": 1}}
    assert len(frames) == 2 * (4 + size) + 1


def test_a_refused_definition_ends_the_measurement() -> None:
    made.check_registered(b'{"status":"ok"}')
    with pytest.raises(DidNotStart, match="refused"):
        made.check_registered(b'{"error":{"code":"no"}}')
