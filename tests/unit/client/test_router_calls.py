"""The verbs of routers: as values, and against a real server with both clients."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import penstock
from penstock.client import router_calls
from penstock.client.http import HttpResponse
from penstock.errors import RouterCycle, RouterNotFound, ServerError, TopicExists
from tests.support.serving import DEADLINE_S, Server


def answer(body: object, status: int = 200) -> HttpResponse:
    return HttpResponse(status, {"content-type": "application/json"}, json.dumps(body).encode())


def test_a_name_is_quoted_in_the_path() -> None:
    assert router_calls.get("a>b").target == "/v0/routers/a%3Eb"


def test_pages_are_followed_to_their_end() -> None:
    steps = router_calls.every("p", "s", "")
    first = next(steps)
    assert first.target == "/v0/routers?prefix=p&source=s&dest=&page_size=1000"
    page = {"routers": [{"router": "p1", "source": "s", "dest": "d"}], "next_cursor": "c"}
    second = steps.send(first.parse(answer(page), "here"))
    assert second.target.endswith("&cursor=c")
    with pytest.raises(StopIteration) as ended:
        steps.send(second.parse(answer({"routers": []}), "here"))

    assert [info.name for info in ended.value.value] == ["p1"]


def test_nonsense_is_not_understood() -> None:
    with pytest.raises(ServerError):
        router_calls.get("r").parse(answer({"router": 5}), "here")


def test_both_clients_and_a_server_agree(tmp_path: Path) -> None:
    server = Server(tmp_path / "server")
    server.start()
    try:
        url = f"http://127.0.0.1:{server.address[1]}"
        with penstock.connect(url, timeout_s=DEADLINE_S) as client:
            made = client.create_router("a>b", "a", "b", filter="eu*", exactly_once=True)
            assert (made.created, made.filter, made.exactly_once) == (
                True,
                ("tag", "Glob", "eu*"),
                True,
            )
            client.append("a", [1], tag="eu:1")
            client.append("a", [2])
            assert [record.data for record in client.read("b").records] == [1]
            assert client.router("a>b").forwarded_total == 1
            assert not client.create_router("a>b", "a", "b").created
            with pytest.raises(RouterCycle) as refused:
                client.create_router("b>a", "b", "a")
            assert refused.value.cycle == ["b", "a", "b"]
            with pytest.raises(TopicExists) as other:
                client.create_router("c>b", "c", "b")
            assert other.value.reason == "router_dest_fan_in"
            client.create("jobs", type="queue")
            client.append("jobs", [1], cron="@daily", timezone="Europe/Berlin")
            (job,) = client.schedules("jobs")
            assert (job.seq, job.cron, job.timezone) == (1, "@daily", "Europe/Berlin")
            assert client.delete("jobs", seqs=[1]).deleted == 1

        async def main() -> None:
            async with penstock.AsyncClient(url, timeout_s=DEADLINE_S) as client:
                (info,) = await client.routers(source="a")
                assert (info.name, info.dest, info.filter) == ("a>b", "b", None)
                assert await client.schedules("jobs") == []
                assert await client.drop_router("a>b")
                assert not await client.drop_router("a>b")
                with pytest.raises(RouterNotFound):
                    await client.router("a>b")

        asyncio.run(main())
    finally:
        server.stop()
