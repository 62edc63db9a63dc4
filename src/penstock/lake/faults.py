"""What Spark wraps around an error of ours, taken off again. Pure."""

from __future__ import annotations

import re

from penstock import errors
from penstock.errors import CorruptFrame, InvalidArgument, PenstockError, StorageError

# As a traceback ends, in a task's process or the planner's.
_OURS = re.compile(r"^(?:penstock\.[\w.]+\.)?(\w+): (.+)$", re.MULTILINE)
_PLACED = re.compile(r"(.*?)(?: at byte (\d+))?: (.*)")


def told(text: str, place: str) -> PenstockError:
    """The error of ours in what Spark says, or one that says what Spark said."""
    for name, message in reversed(_OURS.findall(text)):
        kind = getattr(errors, name, None)
        if name == "GapFound" or (isinstance(kind, type) and issubclass(kind, StorageError)):
            found = _PLACED.fullmatch(message)
            if found is not None:
                offset = int(found[2]) if found[2] else None
                made = CorruptFrame if kind is CorruptFrame else StorageError
                return made(found[1], offset=offset, reason=found[3])
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            return InvalidArgument(message)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    return StorageError(place, reason=f"Spark failed: {first[:500]}")


def is_of_spark(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")
