"""The node of a registration that a complaint about its definition is about, and beava's code for
it. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.compat.beava.registration import BadRegistration
from penstock.errors import InvalidDefinition

_PATH: Final = re.compile(r"(events|derived|tables)\.([^.\[]+)\.?(.*)")
_STEP: Final = re.compile(r"steps(\[\d+\].*)")
_WINDOW: Final = re.compile(r"\d+(ms|s|m|h|d)")
_OPERATOR_CODES: Final = {
    "unknown_operator": "aggregation_unknown_op",
    "unknown_column": "aggregation_unknown_field",
    "bad_column_type": "aggregation_unknown_field",
    "bad_where": "aggregation_invalid_where",
    "duplicate": "aggregation_group_key_collides_with_feature",
}
_PARAMETER_CODES: Final = {
    "q": "invalid_percentile_q",
    "k": "invalid_top_k_k",
    "n": "aggregation_unknown_field",
    "expected_n": "invalid_bloom_fpr",
    "target_fpr": "invalid_bloom_fpr",
}
_OTHER: Final = "invalid_registration"


def placed(error: InvalidDefinition, nodes: Sequence[Mapping[str, Any]]) -> BadRegistration:
    """The complaint in the words of beava, with the path in these nodes. A node that is not among
    them keeps the path in the definition."""
    found = _PATH.fullmatch(error.path)
    if found is None:
        return BadRegistration(_OTHER, error.path or "<body>", error.why)
    kind, name, rest = found.groups()
    number = next((at for at, node in enumerate(nodes) if node["name"] == name), None)
    if number is None:
        return BadRegistration(_OTHER, error.path, error.why)
    path, code = f"nodes[{number}]", _OTHER
    step = _STEP.fullmatch(rest)
    if kind == "events":
        path += "." + rest.replace("fields", "schema.fields", 1)
    elif step is not None:
        path += f".ops{step[1]}"
        code = "invalid_expression"
    elif rest.startswith("from"):
        path += ".upstreams[0]"
    elif rest:
        group = f"ops[{len(nodes[number].get('ops') or [None]) - 1}]"
        path += f".{group}"
        if rest.startswith("key"):
            path, code = f"{path}.keys", "aggregation_unknown_field"
        else:
            below, code = _of_feature(error, rest.split("."), nodes[number])
            path += below
    return BadRegistration(code, path.rstrip("."), error.why)


def _of_feature(
    error: InvalidDefinition, parts: Sequence[str], node: Mapping[str, Any]
) -> tuple[str, str]:
    """`parts` is features, the name of one, and one of its members."""
    code = _OPERATOR_CODES.get(error.reason, _OTHER)
    if len(parts) < 3:
        return ".agg" + "".join(f".{part}" for part in parts[1:2]), code
    _, feature, member = parts[:3]
    if member == "op":
        return f".agg.{feature}.op", code
    if member == "window":
        given = node["ops"][-1]["agg"][feature]["params"].get("window")
        is_one = isinstance(given, str) and _WINDOW.fullmatch(given) is not None
        code = "window_not_supported" if is_one else "aggregation_invalid_window"
    elif error.reason == "bad_parameter":
        code = _PARAMETER_CODES.get(member, _OTHER)
    return f".agg.{feature}.params.{member}", code
