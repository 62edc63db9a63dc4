"""The mark of a change: one key for many changes, and none is missed."""

from __future__ import annotations

import queue

from penstock.atomic_steps import perform
from penstock.engine.change_mark import ChangeMark


def test_many_changes_are_one_key() -> None:
    changed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    mark = ChangeMark(changed, "t")

    mark.set()
    mark.set()
    perform(mark.steps())

    assert (changed.get_nowait(), changed.qsize()) == ("t", 0)


def test_a_change_after_the_look_is_another_key() -> None:
    changed: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    mark = ChangeMark(changed, "t")

    mark.set()
    mark.is_set = False
    mark.set()

    assert changed.qsize() == 2
