"""Copies: the same record elsewhere, with its origin where that was asked for."""

from __future__ import annotations

import json

import pytest

from penstock.codec import kernel
from penstock.directory.copied_records import make
from penstock.directory.copy_origin import Origin
from penstock.types import RouterRules

ORIGIN = Origin("r", "a", 7)


def frames(*metas: bytes | None) -> bytes:
    encoded, _, _ = kernel.encode_appends(
        7, 41, 1000, 0, [b'{"n":1}'] * len(metas), list(metas), None, None, b"tag", b"node"
    )
    return encoded


def metas_of(*given: bytes | None) -> list[object]:
    made = make(frames(*given), 9, 5, 2000, RouterRules(exactly_once=True), ORIGIN, durable=False)
    assert made is not None
    found = []
    for index in range(made.entry.count):
        fields = kernel.frame_at(made.entry.frames, made.entry.offsets, 4, index)
        assert fields[:5] == (5 + index, 2000, b"node", b"tag", b'{"n":1}')
        found.append(json.loads(fields[5]))
    return found


def mark(seq: int) -> dict[str, object]:
    return {
        "idempotency_key": f"router:r:7:7:{seq}",
        "router": "r",
        "source_topic": "a",
        "source_topic_id": 7,
        "source_epoch": 7,
        "source_seq": seq,
    }


def test_copies_have_the_seqs_of_their_topic_and_tell_those_of_the_source() -> None:
    made = make(frames(None, None), 9, 5, 2000, RouterRules(), ORIGIN, durable=True)

    assert made is not None
    assert (made.entry.first_seq, made.entry.count, made.seqs) == (5, 2, (41, 42))


def test_nothing_to_copy_is_nothing() -> None:
    assert make(b"", 9, 5, 2000, RouterRules(), ORIGIN, durable=True) is None
    assert make(frames(None), 9, 5, 2000, RouterRules(), ORIGIN, durable=True, hops_max=0) is None


def test_the_origin_joins_the_meta() -> None:
    assert metas_of(None, b'{"k":"v"}') == [
        {"_topics_router": mark(41)},
        {"k": "v", "_topics_router": mark(42)},
    ]


@pytest.mark.parametrize("meta", [b"5", b'"text"', b"[1,2]"])
def test_what_is_no_object_is_wrapped(meta: bytes) -> None:
    assert metas_of(meta) == [
        {"_topics_original_meta": json.loads(meta), "_topics_router": mark(41)}
    ]


def test_so_is_an_object_that_is_full() -> None:
    full = {f"k{n}": n for n in range(64)}

    assert metas_of(json.dumps(full).encode()) == [
        {"_topics_original_meta": full, "_topics_router": mark(41)}
    ]


def test_a_copy_of_a_copy_has_the_origin_of_the_last_step() -> None:
    earlier = {"_topics_router": {"router": "other"}, "k": 1}

    assert metas_of(json.dumps(earlier).encode()) == [{"_topics_router": mark(41), "k": 1}]


def test_the_size_of_what_was_made_is_known() -> None:
    made = make(
        frames(None, b"5", b'{"k":1}'),
        9,
        5,
        2000,
        RouterRules(exactly_once=True),
        ORIGIN,
        durable=False,
    )

    assert made is not None
    count, size = kernel.measure(made.entry.frames, made.entry.offsets, 4, 0, 3, None)
    assert (count, size) == (3, made.entry.payload_bytes)
