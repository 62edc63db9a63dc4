"""Calls that are under way below us."""

from __future__ import annotations

import threading

from penstock.sender.signal_reentrance import is_interrupted


class Thing:
    def act(self, other: Thing) -> bool:
        return other.ask()

    def ask(self) -> bool:
        return is_interrupted(self, {Thing.act.__code__})


def test_a_call_of_the_same_object_is_seen_and_no_other() -> None:
    one, other = Thing(), Thing()

    assert one.act(one)
    assert not one.act(other)
    assert not one.ask()


def test_calls_on_other_threads_do_not_count() -> None:
    one = Thing()
    found: list[bool] = []

    class Amid(Thing):
        def ask(self) -> bool:
            thread = threading.Thread(target=lambda: found.append(Thing.ask(self)))
            thread.start()
            thread.join()
            return True

    amid = Amid()
    amid.act(amid)
    one.ask()

    assert found == [False]
