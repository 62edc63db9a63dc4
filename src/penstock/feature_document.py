"""Definitions of features as a caller gives them, as one JSON document. It is not checked here.

Without the package of features itself: a client does not need what computes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from penstock.errors import InvalidArgument

SECTIONS: Final = ("events", "derived", "tables")


def document_of(given: Sequence[Any]) -> dict[str, list[Any]]:
    """The document of definitions, declared events and tables, JSON texts and mappings. What
    several of them have in common is in it once."""
    found: dict[str, list[Any]] = {section: [] for section in SECTIONS}
    if not given:
        raise InvalidArgument("nothing to register: expected a definition, or declared nodes")
    for one in given:
        for section, nodes in _members(one).items():
            if section not in found:
                known = ", ".join(SECTIONS)
                raise InvalidArgument(
                    f"unknown member {str(section)[:100]!r} of a definition: expected {known}"
                )
            if not isinstance(nodes, (list, tuple)):
                raise InvalidArgument(f"{section} of a definition must be an array of nodes")
            found[section] += (node for node in nodes if node not in found[section])
    return found


def _members(given: Any) -> Mapping[str, Any]:
    if isinstance(given, (str, bytes)):
        try:
            given = msgspec.json.decode(given)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidArgument(f"the definition is no JSON: {error}") from None
    elif hasattr(given, "to_json") and not isinstance(given, type):
        given = given.to_json()
    if not isinstance(given, Mapping):
        raise InvalidArgument(
            f"a {type(given).__name__} is no definition: expected a Definition, declared events "
            f"and tables, or an object with {', '.join(SECTIONS)}"
        )
    return given
