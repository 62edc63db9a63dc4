"""The verbs of delayed records: as values, and against a real server with both clients."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.client import delayed_calls
from penstock.client.calls import Call
from penstock.client.http import HttpResponse
from penstock.errors import (
    AlreadyDelivered,
    DelayedNotFound,
    InvalidArgument,
    NotAQueue,
    ServerError,
    TopicNotFound,
)
from penstock.types import DelayedInfo
from tests.support.serving import DEADLINE_S, Server

HOUR_MS = 3_600_000


def answer(body: object, status: int = 200) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json"}, json.dumps(body).encode())


def fault(status: int, code: str, **detail: Any) -> HttpResponse:
    return answer({"error": {"code": code, "message": "m", "detail": detail}}, status)


def page(*ids: int, **more: int) -> HttpResponse:
    rows = [{"id": one, "deliver_at": 5, "count": 1, "size": 2} for one in ids]
    return answer({"topic": "t", "delayed": rows, **more})


def ended(steps: Any, response: HttpResponse, call: Call[Any]) -> Any:
    with pytest.raises(StopIteration) as end:
        steps.send(call.parse(response, "here"))
    return end.value.value


def test_pages_are_followed_as_far_as_they_are_wanted() -> None:
    steps = delayed_calls.infos("a/b", 7, 1001)
    first = next(steps)
    assert first.target == "/v0/topics/a%2Fb/delayed?after=7&limit=1000"
    second = steps.send(first.parse(page(*range(8, 1008), next_after=1007), "here"))
    assert second.target.endswith("?after=1007&limit=1")

    found = ended(steps, page(1009, next_after=1009), second)

    assert len(found) == 1001
    assert found[-1] == DelayedInfo(1009, "t", 5, 1, 2)


def test_a_page_without_a_next_one_is_the_last() -> None:
    steps = delayed_calls.infos("t", 0, 500)
    call = next(steps)

    assert [one.id for one in ended(steps, page(3), call)] == [3]
    with pytest.raises(ServerError):
        call.parse(answer({"delayed": 5}), "here")


def test_a_cancel_is_sent_once_because_a_second_attempt_would_find_nothing() -> None:
    call = delayed_calls.cancel_one("a/b", 4)

    assert (call.method, call.target) == ("DELETE", "/v0/topics/a%2Fb/delayed/4")
    assert call.is_change
    assert not call.is_repeatable


def test_a_cancel_of_several_counts_those_that_were_still_delayed() -> None:
    steps = delayed_calls.cancel("t", [1, 2, 1, 3])
    first = next(steps)
    gone = answer({"topic": "t", "delayed_id": 1, "deleted": True})
    second = steps.send(first.parse(gone, "here"))
    late = fault(409, "already_delivered", topic="t", delayed_id=2)
    third = steps.send(second.parse(late, "here"))

    count = ended(steps, fault(404, "delayed_not_found", topic="t", delayed_id=3), third)

    assert count == 1
    assert [one.target[-2:] for one in (first, second, third)] == ["/1", "/2", "/3"]
    with pytest.raises(TopicNotFound):
        first.parse(fault(404, "topic_not_found", topic="t"), "here")
    with pytest.raises(NotAQueue):
        first.parse(fault(409, "not_a_queue", topic="t"), "here")


@pytest.mark.parametrize("wrong", [-1, "1", None, True, 1 << 64])
def test_an_id_is_a_number(wrong: Any) -> None:
    for begin in (
        lambda: delayed_calls.cancel_one("t", wrong),
        lambda: next(delayed_calls.cancel("t", [wrong])),
        lambda: next(delayed_calls.infos("t", wrong, 5)),
    ):
        with pytest.raises(InvalidArgument):
            begin()
    with pytest.raises(InvalidArgument, match="limit"):
        next(delayed_calls.infos("t", 0, 0))


def test_both_clients_and_a_server_agree(tmp_path: Path) -> None:
    server = Server(tmp_path / "server")
    server.start()
    try:
        url = f"http://127.0.0.1:{server.address[1]}"
        with penstock.connect(url, timeout_s=DEADLINE_S) as client:
            ids = [client.append("t", [n], delay_ms=HOUR_MS).delayed_id for n in range(4)]
            assert [one.id for one in client.delayed.infos("t")] == ids
            assert [one.id for one in client.delayed.infos("t", ids[0], 2)] == ids[1:3]
            client.delayed.cancel_one("t", ids[0])
            with pytest.raises(AlreadyDelivered) as late:
                client.delayed.cancel_one("t", ids[0])
            assert (late.value.topic, late.value.delayed_id) == ("t", ids[0])
            with pytest.raises(DelayedNotFound) as unknown:
                client.delayed.cancel_one("t", 99)
            assert (unknown.value.topic, unknown.value.delayed_id) == ("t", 99)
            with pytest.raises(TopicNotFound):
                client.delayed.cancel("none", ids)
            assert client.delayed.cancel("t", [*ids[:2], 99]) == 1

        async def the_other() -> None:
            async with penstock.AsyncClient(url, timeout_s=DEADLINE_S) as client:
                assert [one.id for one in await client.delayed.infos("t")] == ids[2:]
                await client.delayed.cancel_one("t", ids[2])
                assert await client.delayed.cancel("t", ids) == 1
                assert await client.delayed.infos("t") == []

        asyncio.run(the_other())
    finally:
        server.close()
