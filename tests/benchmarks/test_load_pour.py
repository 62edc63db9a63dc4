"""A pour against a little server in the same loop: what is sent, counted and asked at the end."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from benchmarks.load_answers import Refused
from benchmarks.load_job import COUNT, Load, Pour
from benchmarks.load_pour import pour
from tests.benchmarks.support import Caller, serving

JOB = Pour(
    requests=[b"a\n", b"b\n"],
    connections=2,
    seconds=0.05,
    mark=b"ok",
    marks=2,
    error=b"error",
    check=b"get\n",
    check_end=b"}",
    seen=b"{" + COUNT + b"}",
    again=b"later",
    in_flight=2,
)


class Served:
    """Answers each request with two marks, and a `get` with the number of requests: the first time
    it is asked to come again."""

    def __init__(self, answer: bytes = b"ok, ok\n", missing: int = 0) -> None:
        self.answer = answer
        self.missing = missing
        self.count = 0
        self.gets = 0
        self.callers: list[Caller] = []

    def _on_line(self, caller: Caller, line: bytes) -> None:
        if line != b"get":
            self.count += 1
            caller.write(self.answer)
            return
        self.gets += 1
        caller.write(b"{later}" if self.gets == 1 else b"{%d}" % (self.count - self.missing))

    def pour(self, job: Pour = JOB) -> Load:
        async def run() -> Load:
            async with serving(self._on_line, self.callers) as port:
                return await pour(msgspec.structs.replace(job, port=port))

        return asyncio.run(run())


def test_all_requests_are_answered_and_then_seen() -> None:
    served = Served()

    load = served.pour()

    assert load.answers == served.count > 0
    assert served.gets == 2
    assert load.seconds >= JOB.seconds


def test_each_connection_begins_elsewhere_and_keeps_its_requests_in_flight() -> None:
    served = Served()

    served.pour()

    first = sorted(caller.lines[:2] for caller in served.callers)
    assert first == [[b"a", b"b"], [b"b", b"a"]]


def test_an_answer_that_lacks_a_request_is_a_failure() -> None:
    with pytest.raises(Refused, match="expected"):
        Served(missing=1).pour()


def test_an_error_ends_the_load() -> None:
    with pytest.raises(Refused, match="error: full"):
        Served(b"error: full\n").pour()
