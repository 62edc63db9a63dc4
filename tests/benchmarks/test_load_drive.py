"""A closed loop against a little server in the same loop: counts, turns, and what goes wrong."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from benchmarks.load_answers import Refused
from benchmarks.load_drive import drive
from benchmarks.load_job import Drive, Load
from tests.benchmarks.support import Caller, serving

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Served:
    """Answers every line with `answer`, after the first one with `hello` when there is one."""

    def __init__(self, answer: bytes, hello: bytes = b"") -> None:
        self.answer = answer
        self.hello = hello
        self.callers: list[Caller] = []

    @property
    def lines(self) -> list[list[bytes]]:
        """What each connection asked."""
        return [caller.lines[1:] if self.hello else caller.lines for caller in self.callers]

    def _answer(self, caller: Caller, line: bytes) -> None:
        if self.hello and len(caller.lines) == 1:
            caller.write(self.hello)
        elif self.answer:
            caller.write(self.answer)
        else:
            caller.transport.close()

    def drive(self, job: Drive) -> Load:
        async def run() -> Load:
            async with serving(self._answer, self.callers) as port:
                return await drive(msgspec.structs.replace(job, port=port))

        return asyncio.run(run())


def test_answers_are_counted_and_timed() -> None:
    load = Served(OK).drive(Drive([b"x\n"], 2, 0.1, warm_up=0.0))

    assert load.answers > 0
    assert load.reads >= load.answers
    assert 0 < load.p50_ms <= load.p99_ms


def test_requests_are_taken_in_turn_and_each_connection_begins_elsewhere() -> None:
    served = Served(OK)

    served.drive(Drive([b"a\n", b"b\n"], 2, 0.1, warm_up=0.0))

    first = sorted(lines[:3] for lines in served.lines)
    assert first == [[b"a", b"b", b"a"], [b"b", b"a", b"b"]]


def test_so_many_requests_are_under_way_as_were_asked_for() -> None:
    served = Served(b"H")  # an answer that never ends

    load = served.drive(Drive([b"x\n"], 1, 0.1, in_flight=8, warm_up=0.0))

    assert load.answers == 0
    assert served.lines == [[b"x"] * 8]


def test_the_load_begins_after_the_greeting_and_carries_the_connections_number() -> None:
    served = Served(OK, hello=b"INFO\r\nPONG\r\n")

    load = served.drive(
        Drive([b"x@@\n"], 2, 0.1, hello=b"hi\n", hello_ends=b"PONG\r\n", warm_up=0.0)
    )

    assert load.answers > 0
    assert sorted(lines[0] for lines in served.lines) == [b"x00", b"x01"]


def test_a_refusal_ends_the_load() -> None:
    with pytest.raises(Refused, match="507"):
        Served(b"HTTP/1.1 507 Full\r\nContent-Length: 0\r\n\r\n").drive(Drive([b"x\n"], 1, 5))


def test_a_connection_that_is_lost_ends_the_load() -> None:
    with pytest.raises(ConnectionError):
        Served(b"").drive(Drive([b"x\n"], 1, 5))
