"""Offsets of a reader: `{"<topic>": {"epoch": 7, "seq": 41}}`. Pure.

This offset means that everything up to and including seq 41 of epoch 7 has been read. So a range
between two offsets excludes the seq of the first and includes that of the second.

The end of a stream's first batch also has the seq where that batch `begun`. Spark does not store
it: to run the batch again it asks for the initial offset, and by then records may be gone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import InvalidArgument
from penstock.types import Offset

_INT_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class StreamOffset(Offset):
    """The offset of a reader in one topic."""

    begun: int | None = field(default=None, compare=False)

    @property
    def is_initial(self) -> bool:
        """Nothing was read yet: a stream that starts now would start here."""
        return self.begun == self.seq


Offsets = dict[str, StreamOffset]


def parsed(key: str, text: str) -> Offsets:
    """Parse the value of an option, or InvalidArgument with its name."""
    try:
        found = of_json(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InvalidArgument(
            f'option {key} must have the form {{"orders": {{"epoch": 7, "seq": 41}}}}, '
            f"not {text[:200]!r}"
        ) from None
    return {topic: StreamOffset(one.epoch, one.seq) for topic, one in found.items()}


def of_json(value: Mapping[str, Any]) -> Offsets:
    """Parse offsets; ValueError, TypeError, KeyError or AttributeError if they are malformed."""
    found: Offsets = {}
    for topic, pair in value.items():
        if not {"epoch", "seq"} <= set(pair) <= {"epoch", "seq", "begun"}:
            raise ValueError(topic)
        for number in pair.values():
            if type(number) is not int or not 0 <= number <= _INT_MAX:
                raise ValueError(topic)
        found[topic] = StreamOffset(pair["epoch"], pair["seq"], pair.get("begun"))
    return found


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Sorted, so that equal offsets are equal texts."""
    return {topic: _pair(offsets[topic]) for topic in sorted(offsets)}


def _pair(offset: StreamOffset) -> dict[str, int]:
    pair = {"epoch": offset.epoch, "seq": offset.seq}
    return pair if offset.begun is None else pair | {"begun": offset.begun}
