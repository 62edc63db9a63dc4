"""What Spark wraps around an error of ours, taken off again; and which errors pass by themselves.
Pure."""

from __future__ import annotations

import re

from penstock import errors
from penstock.errors import Overloaded, PenstockError, ServerError, StorageError, TopicNotFound

# As a traceback ends, in a task's process or the planner's.
_OURS = re.compile(r"^(?:penstock\.[\w.]+\.)?(\w+): (.+)$", re.MULTILINE)
_PLACED = re.compile(r"(.*?)(?: at byte (\d+))?: (.*)")
_NO_TOPIC = re.compile(r"no topic named '(.*)'")
_AGAIN = "try again"  # as errors of the log say it
_DAMAGED = "stored data is damaged"  # as a server says it
# Of those that Spark tells: files that a checkpoint has moved, executors that have died.
_PASSING = ("FileNotFoundError", "ExecutorLostFailure", "FetchFailed", "MetadataFetchFailed")
_RETRY_MS = 1000


def of(error: Exception, place: str) -> Exception:
    """The error itself, or the one of ours that Spark has wrapped."""
    return told(str(error), place) if is_of_spark(error) else error


def told(text: str, place: str) -> PenstockError:
    """The error of ours in what Spark says, or one that says what Spark said."""
    for name, message in reversed(_OURS.findall(text)):
        kind = StorageError if name == "GapFound" else getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            return _rebuilt(kind, message, place)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    hint = _AGAIN if any(word in text for word in _PASSING) else ""
    return StorageError(place, reason=f"Spark failed: {first[:500]}", hint=hint)


def _rebuilt(kind: type[PenstockError], message: str, place: str) -> PenstockError:
    """An error of this class with this message: its own way to begin wants what is not known."""
    made = kind.__new__(kind, message)
    if isinstance(made, StorageError):
        found = _PLACED.fullmatch(message)
        made.path = place if found is None else found[1]
        made.offset = int(found[2]) if found is not None and found[2] else None
        made.reason = message if found is None else found[3]
        made.hint = ""
    elif isinstance(made, Overloaded):
        made.retry_after_ms, made.limit = _RETRY_MS, None
    elif isinstance(made, TopicNotFound):
        named = _NO_TOPIC.fullmatch(message)
        made.topic = "" if named is None else named[1]
    return made


def is_passing(error: Exception) -> bool:
    """Whether the same may go well in a while, with nobody doing anything about the lake: a server
    is away or busy, a file was moved while it was read."""
    if isinstance(error, ServerError):
        return _DAMAGED not in str(error)
    if isinstance(error, StorageError):
        return _AGAIN in str(error)
    return isinstance(error, (Overloaded, ConnectionError, TimeoutError, FileNotFoundError))


def is_of_spark(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")
