"""Answers and errors of beava."""

from __future__ import annotations

import json

import msgspec
import pytest

from penstock.compat.beava.replies import BeavaError, json_of, msgpack_of, push_answer


def test_the_names_of_an_answer_are_sorted() -> None:
    answer = {"b": {"z": 1, "a": None}, "a": 2}

    assert json_of(answer) == b'{"a":2,"b":{"a":null,"z":1}}'
    assert msgpack_of(answer) == msgspec.msgpack.encode({"a": 2, "b": {"a": None, "z": 1}})


@pytest.mark.parametrize("is_replay", [True, False])
def test_the_answer_to_a_push_is_json(is_replay: bool) -> None:
    found = json.loads(push_answer(7, 3, is_replay=is_replay))

    assert found == {"ack_lsn": 7, "idempotent_replay": is_replay, "registry_version": 3}


def test_an_error_has_its_members_beside_the_code() -> None:
    error = BeavaError(400, "invalid_event", 3, reason="why")

    assert error.body() == {
        "error": {"code": "invalid_event", "reason": "why"},
        "registry_version": 3,
    }
    assert BeavaError(404, "not_found").body() == {"error": {"code": "not_found"}}
