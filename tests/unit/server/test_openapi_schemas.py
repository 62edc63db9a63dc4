"""Schemas state what the models decode and encode; every name that is referred to exists."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import msgspec
import pytest

from penstock.errors import InvalidArgument
from penstock.schema_types import TopicName
from penstock.server import openapi, openapi_schemas
from penstock.topics import validation
from penstock.types import QueueRules, TopicConfig
from penstock.wire import answers, models, stream_messages

SCHEMAS = openapi_schemas.components(openapi.models())
STRUCTS = [
    getattr(models, name)
    for name in vars(models)
    if name in SCHEMAS and issubclass(getattr(models, name), msgspec.Struct)
]


def validator(name: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({"components": {"schemas": SCHEMAS}, **_ref(name)})


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_request_has_the_members_that_are_decoded(struct: type[msgspec.Struct]) -> None:
    schema = SCHEMAS[struct.__name__]
    fields = msgspec.structs.fields(struct)

    assert set(schema["properties"]) == {field.name for field in fields}
    assert set(schema["required"]) == {field.name for field in fields if field.required}


def test_there_are_structs_to_look_at() -> None:
    bodies = {name for name in vars(models) if name.endswith("Body")} - {"TopicWriteBody"}

    assert bodies <= {struct.__name__ for struct in STRUCTS}


def test_every_answer_and_message_that_is_declared_is_in_the_document() -> None:
    declared = {
        name
        for module in (answers, stream_messages)
        for name in vars(module)
        if name.endswith(("Answer", "Event", "Message"))
    }

    assert declared <= set(SCHEMAS)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("WriteBody", {"records": [{"data": None}]}),
        ("WriteBody", {"records": [{"data": 1, "tag": "t", "meta": [1]}], "expected_seq": 2**64}),
        ("WriteBody", {"records": []}),
        ("WriteBody", {"records": [{}]}),
        ("WriteBody", {}),
        ("DiffBody", {}),
        ("DiffBody", {"from_seq": 1, "node": ["a", "b"], "tag": ["tag", "Eq", "x"]}),
        ("DiffBody", {"from_seq": -1}),
        ("DiffBody", {"consistency": "weak"}),
        ("DiffBody", {"node": [""]}),
        ("DeleteBody", {"match": "a*"}),
        ("DeleteBody", {"match": ["tag", "Glob", "a"]}),
        ("DeleteBody", {"match": ["tag", "Eq"]}),
        ("DeleteBody", {"match": ""}),
        ("PositionBody", {"seq": 2**64 - 1}),
        ("PositionBody", {"seq": None}),
    ],
)
def test_a_schema_takes_what_the_server_takes(name: str, body: dict[str, Any]) -> None:
    struct = getattr(models, name)

    assert validator(name).is_valid(body) == _is_taken(struct, body)


def _is_taken(struct: type[msgspec.Struct], body: dict[str, Any]) -> bool:
    """By the same steps as a handler, as far as they need no topic."""
    try:
        found: Any = msgspec.json.decode(json.dumps(body), type=struct)
        for name in ("match", "tag"):
            if getattr(found, name, None) is not None:
                validation.tag_match(getattr(found, name))
        for name in ("seq", "from_seq", "expected_seq"):
            if getattr(found, name, None) is not None:
                validation.seq(getattr(found, name))
        for node in getattr(found, "node", None) or ():
            validation.short_text("node", node, 128)
    except (msgspec.ValidationError, InvalidArgument):
        return False
    return getattr(found, "records", True) != []


@pytest.mark.parametrize("name", ["a", "a.b:c-D_9", "a" * 255, "", "-a", "a" * 256, "a b", "a\n"])
def test_the_pattern_of_names_is_the_rule_for_names(name: str) -> None:
    pattern = openapi_schemas.schema_of(TopicName)["pattern"]
    is_name = re.search(pattern, name) is not None and "\n" not in name
    try:
        validation.topic_name(name)
    except InvalidArgument:
        assert not is_name
    else:
        assert is_name


def test_a_configuration_is_answered_whole_and_asked_for_in_parts() -> None:
    fields = list(TopicConfig.__struct_fields__)

    assert SCHEMAS["TopicConfig"]["required"] == [name for name in fields if name != "queue"]
    assert list(SCHEMAS["TopicConfigBody"]["properties"]) == fields
    assert SCHEMAS["QueueRules"]["required"] == list(QueueRules.__struct_fields__)
    assert validator("TopicConfig").is_valid(msgspec.to_builtins(TopicConfig()))
    assert validator("TopicConfigBody").is_valid(dict.fromkeys(fields))


def test_every_name_that_is_referred_to_exists() -> None:
    text = json.dumps(SCHEMAS)

    assert set(re.findall(r"#/components/schemas/([\w.]+)", text)) <= set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_by_the_rules_of_json_schema(name: str) -> None:
    jsonschema_rs.meta.validate(
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **SCHEMAS[name]}
    )
