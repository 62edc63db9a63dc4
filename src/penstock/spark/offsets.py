"""How far a reader has come: `{"<topic>": {"epoch": 7, "seq": 41}}`. Pure.

It means that everything up to and including seq 41 of epoch 7 has been read. So a range from one
offset to another leaves out the seq of the first and takes in that of the second.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import InvalidArgument

_INT_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Offset:
    """In one topic. A recreated topic has another epoch, in which seqs begin anew."""

    epoch: int
    seq: int


Offsets = dict[str, Offset]


def parsed(key: str, text: str) -> Offsets:
    """What an option says, or InvalidArgument that names it."""
    try:
        return of_json(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InvalidArgument(
            f'option {key} must be like {{"orders": {{"epoch": 7, "seq": 41}}}}, not {text[:200]!r}'
        ) from None


def of_json(value: Mapping[str, Any]) -> Offsets:
    """ValueError or a relative of it when this is none."""
    found: Offsets = {}
    for topic, pair in value.items():
        if set(pair) != {"epoch", "seq"}:
            raise ValueError(topic)
        for number in pair.values():
            if type(number) is not int or not 0 <= number <= _INT_MAX:
                raise ValueError(topic)
        found[topic] = Offset(pair["epoch"], pair["seq"])
    return found


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Sorted, so that equal offsets are equal texts."""
    return {
        topic: {"epoch": offsets[topic].epoch, "seq": offsets[topic].seq}
        for topic in sorted(offsets)
    }
