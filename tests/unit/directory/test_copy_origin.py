"""A copy names the record it was made from, and keeps the meta that record had."""

from __future__ import annotations

import json

import pytest

from penstock.directory.copy_origin import MARK, ORIGINAL, Origin, marked_meta
from penstock.limits import META_KEYS_MAX

ORIGIN = Origin("eu", "orders", 7)


def marked(meta: bytes | None, seq: int = 41) -> dict[str, object]:
    found: dict[str, object] = json.loads(marked_meta(meta, ORIGIN, seq))
    return found


def test_the_mark_names_router_topic_and_seq() -> None:
    assert marked(None) == {
        MARK: {
            "idempotency_key": "router:eu:7:7:41",
            "router": "eu",
            "source_topic": "orders",
            "source_topic_id": 7,
            "source_epoch": 7,
            "source_seq": 41,
        }
    }


def test_members_of_the_original_meta_stay() -> None:
    found = marked(b'{"a": 1, "b": [2]}')

    assert (found["a"], found["b"]) == (1, [2])
    assert set(found) == {"a", "b", MARK}


def test_a_copy_of_a_copy_names_the_nearest_source() -> None:
    again = marked(marked_meta(b'{"a":1}', Origin("us", "raw", 3), 9))

    assert again[MARK] == marked(None)[MARK]
    assert again["a"] == 1


@pytest.mark.parametrize("meta", [b"[1,2]", b'"text"', b"3"])
def test_a_meta_that_is_no_object_is_kept_beside_the_mark(meta: bytes) -> None:
    found = marked(meta)

    assert found[ORIGINAL] == json.loads(meta)
    assert set(found) == {ORIGINAL, MARK}


def test_an_object_without_room_for_the_mark_is_kept_beside_it() -> None:
    full = {f"k{at}": at for at in range(META_KEYS_MAX)}

    found = marked(json.dumps(full).encode())

    assert found[ORIGINAL] == full
    assert set(found) == {ORIGINAL, MARK}
