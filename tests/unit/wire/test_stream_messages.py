"""Events and messages as the server formats them are instances of their declared models."""

from __future__ import annotations

import json

import msgspec
import pytest

from penstock.server import events
from penstock.server.openapi_operations import OPERATIONS
from penstock.types import Gap, JsonPage
from penstock.wire import stream_messages as declared

PAGE = JsonPage(b'[{"$seq":2,"$ts":5,"$tag":"t","data":{"k":[1]}}]', 1, None, 2, 9, 1, False, 0)
GAP = Gap(3, 4, "cap", 2, 5, 9)
FORMATTED = {
    declared.RecordEvent: events.record_fields("t", 1, PAGE),
    declared.TombstoneEvent: events.tombstone_fields("t", GAP, "from_seq_too_old"),
    declared.CaughtUpEvent: events.head_fields("t", 9),
    declared.TopicDeletedEvent: events.deleted_fields("t"),
}
MESSAGES = {
    declared.RecordEvent: declared.RecordMessage,
    declared.TombstoneEvent: declared.TombstoneMessage,
    declared.CaughtUpEvent: declared.CaughtUpMessage,
    declared.TopicDeletedEvent: declared.TopicDeletedMessage,
}


@pytest.mark.parametrize("model", FORMATTED, ids=lambda model: model.__name__)
def test_an_event_has_the_members_of_its_model_and_no_others(model: type[msgspec.Struct]) -> None:
    text = b"{%b}" % FORMATTED[model]

    assert json.loads(msgspec.json.encode(msgspec.json.decode(text, type=model))) == json.loads(
        text
    )


@pytest.mark.parametrize("event", MESSAGES, ids=lambda model: model.__name__)
def test_a_message_is_an_event_with_its_op(event: type[msgspec.Struct]) -> None:
    message = MESSAGES[event]
    op = message.__struct_config__.tag
    assert isinstance(op, str)
    text = b'{"op":"%b",%b}' % (op.encode(), FORMATTED[event])

    assert json.loads(msgspec.json.encode(msgspec.json.decode(text, type=message))) == json.loads(
        text
    )


def test_the_document_names_each_message_by_its_op() -> None:
    named = OPERATIONS["GET", "/v0/ws"].more["x-penstock-messages"]

    for op, model in named.items():
        assert isinstance(model, type)
        assert model.__struct_config__.tag == op
