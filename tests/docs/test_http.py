"""The exchanges on the pages about HTTP happen as they are written, from top to bottom."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import blocks
from tests.server.wire import Connection
from tests.support.serving import Server

PAGES = ["docs/api/http.md"]
_HEADER = re.compile(r"([A-Za-z-]+): (.+)")

# Members whose values differ between two runs. Their presence counts.
CHANGING = {
    "ts",
    "$ts",
    "last_write_ts",
    "last_read_ts",
    "lag_ms",
    "uptime_ms",
    "version",
    "wid",
    "stream_url",
    "ticket",
}


@dataclass(frozen=True)
class Exchange:
    """A request as a page shows it, and the answer it says there is."""

    method: str
    target: str
    headers: dict[str, str]
    body: str
    status: int
    answer: str


def parse(text: str) -> Exchange:
    """`METHOD target`, headers, body, the status alone on a line, the answer."""
    asked, status, answer = re.split(r"^(\d{3})$", text, maxsplit=1, flags=re.MULTILINE)
    first, *rest = asked.strip().split("\n")
    method, target = first.split(" ")
    headers = {}
    while rest and (match := _HEADER.fullmatch(rest[0])):
        headers[match[1]] = match[2]
        rest.pop(0)
    return Exchange(method, target, headers, "\n".join(rest), int(status), answer.strip())


def play(server: Server, one: Exchange) -> tuple[int, str]:
    headers = {"Content-Type": "application/json"} if one.body else {}
    with Connection(server.connect_to) as wire:
        reply = wire.request(
            one.method, one.target, one.body.encode() or None, headers | one.headers
        )
    return reply.status, reply.body.decode()


def stable(value: Any) -> Any:
    """Without what changes from run to run; of the cost, which figures there are."""
    if isinstance(value, dict):
        return {
            name: sorted(inner)
            if name == "performance"
            else "CHANGES"
            if name in CHANGING and inner is not None
            else stable(inner)
            for name, inner in value.items()
        }
    return [stable(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", PAGES)
def test_the_exchanges_on_a_page_happen_as_written(name: str, tmp_path: Path) -> None:
    exchanges = [parse(block.text) for block in blocks(name) if block.language == "http"]
    server = Server(tmp_path, {"PENSTOCK_WAL_SHARDS": "1"}).start()
    try:
        for one in exchanges:
            status, answer = play(server, one)

            where = f"{one.method} {one.target} {one.body}"
            assert status == one.status, where
            assert stable(json.loads(answer)) == stable(json.loads(one.answer)), where
    finally:
        server.close()
    assert exchanges
