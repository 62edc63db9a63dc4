"""Every mutant is called as the code that it stands for is: one that only fails for its arguments
would be caught for the wrong reason, and says nothing of the rig."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from tests.support import (
    mutants,
    projection_mutants,
    queue_mutants,
    router_mutants,
    sender_mutants,
    server_mutants,
    spool_mutants,
)

MAKERS: dict[str, Callable[[], list[Any]]] = {
    f"{group}/{name}": make
    for group, makers in {
        "log": mutants.MUTANTS,
        "projection": projection_mutants.MUTANTS,
        "queue": queue_mutants.MUTANTS,
        "router": router_mutants.MUTANTS,
        "server": server_mutants.MUTANTS,
        "server for senders": sender_mutants.OF_SERVERS,
        "sender": sender_mutants.OF_SENDERS,
        "blind spool": spool_mutants.BLIND,
        "hasty spool": spool_mutants.HASTY,
    }.items()
    for name, make in makers.items()
}


def _flaw(original: Any, instead: Any) -> str:
    """What the stand-in does not take and the original does."""
    try:
        wanted = inspect.signature(original).parameters.values()
    except ValueError:  # compiled code does not tell
        return ""
    taken = list(inspect.signature(instead).parameters.values())
    if all(one.kind is not one.VAR_POSITIONAL for one in taken):
        places = [
            one for one in taken if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
        if len(places) < sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in wanted):
            return "too few places"
    if all(one.kind is not one.VAR_KEYWORD for one in taken):
        names = {one.name for one in taken}
        missing = [
            one.name for one in wanted if one.kind is one.KEYWORD_ONLY and one.name not in names
        ]
        if missing:
            return f"does not know {', '.join(missing)}"
    return ""


@pytest.mark.parametrize("name", MAKERS)
def test_a_mutant_takes_what_the_original_takes(name: str) -> None:
    for where, attribute, instead in MAKERS[name]():
        original = inspect.getattr_static(where, attribute)
        if not inspect.isroutine(original) or not callable(instead):
            continue

        assert not _flaw(original, instead), f"{attribute} in {name}"


def test_the_check_sees_a_mutant_that_is_behind() -> None:
    def original(topic: object, *, with_tail: bool = True) -> None: ...
    def behind(topic: object) -> None: ...

    assert _flaw(original, behind)
    assert not _flaw(original, lambda topic, **named: None)
    assert _flaw(lambda one, two: None, lambda one: None)
