"""Acts are written in their order, those of a turn together; what has to wait, waits elsewhere."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from penstock.engine.audit import Act, Audit
from penstock.engine.handle import Handle
from penstock.errors import Closed, Overloaded, PenstockError
from penstock.server.audit_writer import AuditWriter
from penstock.server.loop_bridge import Bridge
from tests.unit.server.support import on_loop, until


class FakeAudit:
    """Keeps what is appended. `refusal` is raised by appends that do not wait."""

    def __init__(self, *, exists: bool = True) -> None:
        self.exists = exists
        self.refusal: PenstockError | None = None
        self.outcome: PenstockError | None = None  # of appends that do not wait
        self.may_append = threading.Event()  # for those that wait
        self.may_append.set()
        self.batches: list[list[str]] = []
        self.waited = 0

    def append(self, acts: Sequence[Act]) -> None:
        assert self.may_append.wait(60)
        self.exists = True
        self.waited += 1
        self.batches.append([act["act"] for act in acts])

    def submit(
        self,
        acts: Sequence[Act],
        done: Callable[[PenstockError | None], None],
        push: Callable[[Handle], None],
    ) -> bool:
        if self.refusal is not None:
            raise self.refusal
        if self.exists:
            self.batches.append([act["act"] for act in acts])
            done(self.outcome)
        return self.exists


def writer_and_turn(audit: FakeAudit) -> tuple[AuditWriter, Callable[..., None]]:
    """A writer, and a turn of the loop with these acts."""
    writer = AuditWriter(Bridge(asyncio.get_running_loop()), lambda handle: None)

    def turn(*acts: str) -> None:
        for act in acts:
            writer.note(act, {"name": "t"})
        writer.submit(cast("Audit", audit))

    return writer, turn


@on_loop
async def test_the_acts_of_a_turn_are_one_append() -> None:
    audit = FakeAudit()
    writer, turn = writer_and_turn(audit)

    turn("a", "b")
    turn("c")
    writer.close()

    assert audit.batches == [["a", "b"], ["c"]]
    assert audit.waited == 0


@on_loop
async def test_while_the_topic_is_created_later_acts_wait_behind_the_first() -> None:
    audit = FakeAudit(exists=False)
    audit.may_append.clear()
    writer, turn = writer_and_turn(audit)

    turn("a")
    audit.exists = True
    turn("b")
    audit.may_append.set()
    await until(lambda: audit.waited == 2)
    await asyncio.sleep(0)
    turn("c")
    writer.close()

    assert audit.batches == [["a"], ["b"], ["c"]]
    assert audit.waited == 2


@on_loop
async def test_when_the_queue_is_full_acts_wait_for_room() -> None:
    audit = FakeAudit()
    audit.refusal = Overloaded("the write queue is full", retry_after_ms=100)
    writer, turn = writer_and_turn(audit)

    turn("a")
    writer.close()

    assert audit.batches == [["a"]]
    assert audit.waited == 1


@on_loop
async def test_failures_go_to_the_log_of_the_server(caplog: pytest.LogCaptureFixture) -> None:
    audit = FakeAudit()
    writer, turn = writer_and_turn(audit)

    with caplog.at_level(logging.ERROR, logger="penstock.server"):
        audit.outcome = Closed("the log is closed")
        turn("a")
        audit.refusal = Closed("the log is closed")
        turn("b")
    writer.close()

    assert [record.getMessage() for record in caplog.records] == [
        "audit failed: {'act': 'a', 'name': 't'}: the log is closed",
        "audit failed: {'act': 'b', 'name': 't'}: the log is closed",
    ]
