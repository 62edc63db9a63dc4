"""Bodies of beava's requests."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from penstock.compat.beava.bodies import (
    BatchGetBody,
    GetBody,
    event_of_push,
    get_of,
    has_control_characters,
    read_of,
)
from penstock.compat.beava.replies import BeavaError


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_framed_push_is_a_name_and_json(is_packed: bool) -> None:
    push = {"event": "Ride", "body": {"rider": "ana", "fare": 1.5, "tags": [None, True]}}
    encode = msgspec.msgpack.encode if is_packed else msgspec.json.encode

    found = event_of_push(encode(push), is_packed=is_packed)

    assert found is not None
    assert found[0] == "Ride"
    assert json.loads(found[1]) == push["body"]


@pytest.mark.parametrize(
    ("payload", "is_packed"),
    [
        (b"{", False),
        (b'{"event":"Ride"}', False),
        (b'{"event":1,"body":{}}', False),
        (b"[]", False),
        (b"\xc1", True),
        (msgspec.msgpack.encode({"event": "Ride"}), True),
        (
            msgspec.msgpack.encode({"event": "Ride", "body": {"at": msgspec.msgpack.Ext(5, b"")}}),
            True,
        ),
    ],
)
def test_another_payload_is_no_push(payload: bytes, is_packed: bool) -> None:
    assert event_of_push(payload, is_packed=is_packed) is None


@pytest.mark.parametrize(
    ("event", "is_found"),
    [
        ({"city": "Oslo\n"}, True),
        ({"ci\tty": 1}, True),
        ({"more": [{"deep": "\x00"}]}, True),
        ({"city": 'a "quoted" \\ text'}, False),
        ({"city": "Tromsø"}, False),
    ],
)
def test_control_characters_are_found_in_names_and_texts(event: Any, is_found: bool) -> None:
    assert has_control_characters(json.dumps(event).encode()) is is_found


def test_a_read_has_a_key_by_either_name() -> None:
    body = read_of(BatchGetBody, b'{"requests":[{"table":"T","entity_id":"a"},{"table":"T"}]}')

    assert body.requests[0].read_key == "a"
    with pytest.raises(BeavaError, match="internal_error"):
        _ = body.requests[1].read_key


def test_the_older_form_of_a_get_has_a_code_of_its_own() -> None:
    assert get_of(b'{"table":"T","key":[1]}') == GetBody("T", [1])
    with pytest.raises(BeavaError) as caught:
        get_of(b'{"keys":["a"],"features":["n"]}')
    assert caught.value.code == "unsupported_request_shape"
    with pytest.raises(BeavaError) as caught:
        get_of(b'{"table":"T"}')
    assert caught.value.code == "internal_error"
