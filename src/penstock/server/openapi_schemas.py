"""JSON Schemas of the declared models (`wire/models.py`, `wire/answers.py`,
`wire/stream_messages.py`), for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from penstock.types import QueueRules, TopicConfig

Schema = dict[str, Any]
Model = type[msgspec.Struct]

_REF: Final = "#/components/schemas/{name}"


def ref(model: Model) -> Schema:
    return {"$ref": _REF.format(name=model.__name__)}


def schema_of(kind: Any) -> Schema:
    """The schema of a type, or of a model that contains no other."""
    found = msgspec.json.schema(kind)
    return next(iter(found.get("$defs", {}).values()), found)


def components(models: Iterable[Model]) -> dict[str, Schema]:
    """The schemas of these models and of the models inside them, by name."""
    wanted = [*models, TopicConfigBody]
    _, found = msgspec.json.schema_components(wanted, ref_template=_REF)
    for model in (TopicConfig, QueueRules):  # answers state every field, also one with its default
        if model.__name__ in found:
            found[model.__name__]["required"] = _stated(model)
    return {name: _tidied(schema) for name, schema in sorted(found.items())}


def _stated(model: Model) -> list[str]:
    fields = msgspec.structs.fields(model)
    return [field.encode_name for field in fields if field.default is not msgspec.UNSET]


def _tidied(schema: Schema) -> Schema:
    """Without the title, which repeats the name, and with the docstring on one line."""
    schema = {key: value for key, value in schema.items() if key != "title"}
    if "description" in schema:
        schema["description"] = " ".join(schema["description"].split())
    return schema


def _config_body() -> Model:
    """`TopicConfig` as a request has it: each field may be absent or null."""
    rules = msgspec.defstruct("QueueRulesBody", [], bases=(QueueRules,))
    types = {"queue": rules}
    fields = [
        (field.name, types.get(field.name, field.type) | None, field.default)
        for field in msgspec.structs.fields(TopicConfig)
    ]
    about = "A topic's configuration. A field that is absent or null takes its default."
    return msgspec.defstruct("TopicConfigBody", fields, kw_only=True, namespace={"__doc__": about})


TopicConfigBody: Final = _config_body()
