"""Members of JSON objects, taken out strictly: what is wrong is named with its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from penstock.errors import InvalidArgument, InvalidDefinition
from penstock.features.durations import duration_ms
from penstock.features.names import name_of, nearest, shown
from penstock.features.sizes import size_bytes

FIELDS_MAX: Final = 1024  # of an event, columns of a step, features of a table


@contextmanager
def at(path: str, reason: str) -> Iterator[None]:
    """Give a path to what is wrong inside."""
    try:
        yield
    except InvalidDefinition:
        raise
    except InvalidArgument as error:
        raise InvalidDefinition(str(error), path=path, reason=reason) from None


def wrong(why: str, path: str, reason: str) -> InvalidDefinition:
    """An error, to be raised."""
    return InvalidDefinition(why, path=path, reason=reason)


def path_of(kind: str, node: object, number: int) -> str:
    """The path of a node: with its name, or else its number."""
    name = node.get("name") if isinstance(node, Mapping) else None
    return f"{kind}.{name}" if isinstance(name, str) and len(name) <= 128 else f"{kind}[{number}]"


def object_of(
    given: object,
    path: str,
    optional: Iterable[str] | None,
    *,
    required: tuple[str, ...] = (),
    most: int = FIELDS_MAX,
) -> Mapping[str, Any]:
    """An object with these members; `optional` None allows any."""
    if not isinstance(given, Mapping):
        raise wrong(f"expected an object, not {shown(given)}", path, "bad_type")
    if len(given) > most:
        raise wrong(f"{len(given)} members: expected at most {most}", path, "too_many")
    for member in given:
        if not isinstance(member, str):
            raise wrong(f"expected names as members, not {shown(member)}", path, "bad_type")
        if optional is not None and member not in (known := {*optional, *required}):
            near = nearest(member, known)
            raise wrong(f"unknown member {shown(member)}; {near}", path, "unknown_member")
    for member in required:
        if member not in given:
            raise wrong(f"{member!r} is missing", path, "missing")
    return given


def list_of(given: object, path: str, most: int) -> list[Any] | tuple[Any, ...]:
    """An array of at most so many items."""
    if not isinstance(given, (list, tuple)):
        raise wrong(f"expected an array, not {shown(given)}", path, "bad_type")
    if len(given) > most:
        raise wrong(f"{len(given)} items: expected at most {most}", path, "too_many")
    return given


def named(given: object, path: str) -> str:
    """A name."""
    with at(path, "bad_name"):
        return name_of(given)


def text_of(given: object, path: str) -> str:
    """A text that names something."""
    if not isinstance(given, str):
        raise wrong(f"expected a name, not {shown(given)}", path, "bad_type")
    return given


def duration_of(given: object, path: str) -> int | None:
    """A duration in ms, if there is one."""
    if given is None:
        return None
    with at(path, "bad_duration"):
        return duration_ms(given)


def size_of(given: object, path: str) -> int | None:
    """A size in bytes, if there is one."""
    if given is None:
        return None
    with at(path, "bad_size"):
        return size_bytes(given)
