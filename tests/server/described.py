"""The server's own description, made fit for a machine that tries it out.

Answers are held to exactly what is described: a member nobody described is a mismatch. Requests
are drawn from smaller ranges: few names, so that they meet each other, and short lists, since the
large ones have tests of their own. Whether a request should have been refused is told by the
description as it is, not by the narrowed one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema_rs

NAMES = [*(f"t{number}" for number in range(6)), "a.b:c-D_9"]
PREFIX = "t"
_GLOBS = ["t*", "*"]
_CORNERS = [0, 1, 2, 4, 1_000, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
_NAMED = {"topic", "table", "event", "feature_table"}
_TRACE = f"00-{'1' * 32}-{'2' * 16}-01"
_WIDS = ["wid_AAAAAAAAAAAAAAAAAAAAAA", "nothing"]
_CONFIGS: dict[str, Any] = {
    "anyOf": [
        {"type": "null"},
        {
            "type": "object",
            "properties": {
                "cap_records": {"type": "integer", "minimum": -1, "maximum": 9},
                "discard": {"enum": ["old", "reject"]},
                "durability": {"enum": ["ephemeral", "memory", "disk", "fsync"]},
            },
        },
    ]
}


class Allowed:
    """Which requests the description allows, as it is served."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._paths: dict[str, re.Pattern[str]] = {}
        self._bodies: dict[str, jsonschema_rs.Validator] = {}
        for path, operations in document["paths"].items():
            for operation in operations.values():
                name = operation["operationId"]
                self._paths[name] = _path_pattern(path, operation.get("parameters", ()))
                body = operation.get("requestBody", {}).get("content", {}).get("application/json")
                if body is not None:
                    whole = {"components": document["components"], **body["schema"]}
                    self._bodies[name] = jsonschema_rs.validator_for(whole)

    def complaint(self, name: str, url: str, kind: str, body: bytes) -> str | None:
        """Why this request to an operation should have been refused; None when it is good."""
        path = unquote(urlsplit(url).path)
        if not self._paths[name].fullmatch(path):
            return f"its path is {path}"
        if not body or name not in self._bodies or not kind.startswith("application/json"):
            return None
        errors = self._bodies[name].iter_errors(json.loads(body))
        return next((str(error) for error in errors if not _is_unseen(error)), None)


def _path_pattern(path: str, parameters: Any) -> re.Pattern[str]:
    patterns = {
        one["name"]: one["schema"].get("pattern", "^.+$")[1:-1]
        for one in parameters
        if one["in"] == "path"
    }
    parts = re.split(r"{(\w+)}", path)
    whole = "".join(patterns[one] if at % 2 else one for at, one in enumerate(parts))
    return re.compile(whole, re.DOTALL)  # any name may have a line break in it


def _is_unseen(error: Any) -> bool:
    """The configuration in a write is looked at only when it creates the topic, the key of one read
    of several only when its table exists."""
    path = list(error.instance_path)
    return "config" in path or (path[:1] in (["requests"], ["reads"]) and path[2:3] == ["key"])


def strict(document: dict[str, Any]) -> dict[str, Any]:
    """Answers may have the members that are described, and no others."""
    asked = requested(document)
    for name, schema in document["components"]["schemas"].items():
        if name not in asked:
            for one in _objects(schema):
                if "properties" in one:
                    one.setdefault("additionalProperties", False)
    return document


def narrowed(document: dict[str, Any]) -> dict[str, Any]:
    """Requests from ranges in which something happens."""
    schemas = document["components"]["schemas"]
    for name in requested(document):
        for one in _objects(schemas[name]):
            _choose(one)
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                _choose(parameter["schema"])
                if parameter["name"] == "wid":
                    parameter["schema"] = {"enum": _WIDS}
                elif parameter["name"] == "traceparent":
                    parameter["schema"] = {"enum": [_TRACE, "00-zz"]}
                elif parameter["name"] in _NAMED:  # where any name will do, too
                    parameter["schema"] = {"enum": NAMES}
    for name in ("WriteBody", "BatchWriteBody"):
        members = schemas[name]["properties"]
        members["records"]["maxItems"] = 3
        members["config"] = _CONFIGS
    schemas["BatchBody"]["properties"]["writes"]["maxItems"] = 3
    schemas["WatchBody"]["properties"]["topics"] |= {
        "maxProperties": 3,
        "propertyNames": {"enum": [*NAMES, *_GLOBS]},
    }
    schemas["DiffBody"]["properties"]["wait_ms"] = {"enum": [0, 5]}  # longer only takes longer
    record = schemas["RecordBody"]["properties"]
    record["data"] = {"type": ["object", "array", "string", "number", "boolean", "null"]}
    record["meta"] = {"type": ["object", "array", "string", "null"], "maxProperties": 3}
    return document


def requested(document: dict[str, Any]) -> set[str]:
    """The schemas that requests are made of."""
    schemas = document["components"]["schemas"]
    operations = [one for path in document["paths"].values() for one in path.values()]
    found: set[str] = set()
    waiting = [operation.get("requestBody", {}) for operation in operations]
    while waiting:
        for one in _objects(waiting.pop()):
            name = str(one.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found.add(name)
                waiting.append(schemas[name])
    return found


def _choose(schema: dict[str, Any]) -> None:
    """A few values instead of all that fit: names that meet each other instead of a pattern, and
    the corners of a range."""
    pattern = schema.get("pattern")
    if pattern is not None:
        schema.clear()
        schema["enum"] = _GLOBS if pattern == r"\*$" else NAMES
    elif schema.get("type") == "integer" and schema.get("minimum") == 0:
        schema.clear()
        schema["enum"] = _CORNERS


def _objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in list(node.values()):
            yield from _objects(value)
    elif isinstance(node, list):
        for value in node:
            yield from _objects(value)
