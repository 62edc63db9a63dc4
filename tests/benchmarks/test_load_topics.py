"""The same requests go to each topic, in order, and every answer is counted."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import pytest

from benchmarks.load_answers import Refused
from benchmarks.load_job import TOPIC, EachTopic, Load
from benchmarks.load_requests import http
from benchmarks.load_topics import each_topic
from tests.benchmarks.support import Caller, serving

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
FULL = b"HTTP/1.1 507 Full\r\nContent-Length: 2\r\n\r\n{}"


def served(answer: bytes, topics: int) -> tuple[Load, list[Caller]]:
    callers: list[Caller] = []

    def on_line(caller: Caller, line: bytes) -> None:
        if line == b"\r":  # the end of a request without a body
            caller.write(answer)

    async def run() -> Load:
        requests = [http("GET", f"/{verb}/{TOPIC.decode()}") for verb in ("first", "second")]
        async with serving(on_line, callers) as port:
            return await each_topic(EachTopic(requests, topics, 3, 60, port=port))

    return asyncio.run(run()), callers


def test_each_topic_gets_all_requests_in_order() -> None:
    load, callers = served(OK, 7)

    seen: dict[bytes, list[bytes]] = defaultdict(list)
    for line in (line for caller in callers for line in caller.lines if line.startswith(b"GET")):
        _, verb, topic = line.split()[1].split(b"/")
        seen[topic].append(verb)
    assert seen == {b"%06d" % number: [b"first", b"second"] for number in range(7)}
    assert load.answers == 14
    assert 0 < load.p50_ms <= load.p99_ms


def test_a_refusal_is_told() -> None:
    with pytest.raises(Refused, match="507"):
        served(FULL, 7)
