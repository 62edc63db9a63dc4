"""Finds the error of Penstock in a Spark exception, and tells which errors are transient. Pure."""

from __future__ import annotations

import re

from penstock import errors
from penstock.errors import (
    InvalidArgument,
    Overloaded,
    PenstockError,
    ServerError,
    StorageError,
    TopicNotFound,
)

# The last line of a traceback, of a task or of the planner.
_OURS = re.compile(r"^(?:penstock\.[\w.]+\.)?(\w+): (.+)$", re.MULTILINE)
_WITH_PATH = re.compile(r"(.*?)(?: at byte (\d+))?: (.*)")
_NO_TOPIC = re.compile(r"no topic named '(.*)'")
# An expression of ours that raises an error in a query.
_REFUSED = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_OF_JAVA = "An error occurred while calling"
_CAUSE = re.compile(r"^(?:Caused by)?: [\w.$]+: (.+)$", re.MULTILINE)
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+$")
_AGAIN = "try again"  # in the hint of a transient StorageError
_DAMAGED = "stored data is damaged"  # in the answer of a server
# Transient errors of Spark: a checkpoint moved a file, an executor died.
_PASSING = ("FileNotFoundError", "ExecutorLostFailure", "FetchFailed", "MetadataFetchFailed")
_RETRY_MS = 1000


def unwrapped(error: Exception, path: str) -> Exception:
    """The error itself, or the error of Penstock that Spark has wrapped."""
    return parsed(str(error), path) if is_of_spark(error) else error


def parsed(text: str, path: str) -> PenstockError:
    """The error of Penstock in a text of Spark, or a StorageError with the first line of it."""
    for name, message in reversed(_OURS.findall(text)):
        kind = StorageError if name == "GapFound" else getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, PenstockError):
            return _rebuilt(kind, message, path)
    if (refused := _REFUSED.search(text)) is not None:
        return InvalidArgument(refused[1])
    hint = _AGAIN if any(word in text for word in _PASSING) else ""
    return StorageError(path, reason=f"Spark failed: {_reason(text)[:500]}", hint=hint)


def _reason(text: str) -> str:
    """The first line; or the outermost and the innermost cause, if that only names a method."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")
    causes = [_SQLSTATE.sub("", one).strip() for one in _CAUSE.findall(text)]
    if not first.startswith(_OF_JAVA) or not causes:
        return first
    return "; ".join(dict.fromkeys((causes[0], causes[-1])))


def _rebuilt(kind: type[PenstockError], message: str, path: str) -> PenstockError:
    """An error of this class with this message. `__init__` would need values that the text does not
    have."""
    made = kind.__new__(kind, message)
    if isinstance(made, StorageError):
        found = _WITH_PATH.fullmatch(message)
        made.path = path if found is None else found[1]
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
    """Whether a retry may succeed without a change to the lake: the server is unreachable or busy,
    or a file was moved during the read."""
    if isinstance(error, ServerError):
        return _DAMAGED not in str(error)
    if isinstance(error, StorageError):
        return _AGAIN in str(error)
    return isinstance(error, (Overloaded, ConnectionError, TimeoutError, FileNotFoundError))


def is_of_spark(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")
