"""The byte tables of docs/format/batch.md hold for what a server takes and what it sends.

As in `test_formats.py` nothing of the package's own codec is used.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.docs.pages import page
from tests.docs.test_formats import frames, sizes_of, tables
from tests.server.support import BATCH, Api
from tests.support.serving import Server

PAGE = "docs/format/batch.md"
OPENING = "<4sI"
RECORD = "<IIHH"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    server = Server(tmp_path_factory.mktemp("batch")).start()
    yield Api(server.connect_to)
    server.close()


def example() -> bytes:
    (found,) = re.findall(r"^```hex\n(.*?)^```$", page(PAGE), re.MULTILINE | re.DOTALL)
    return bytes.fromhex(found)


def opened(body: bytes) -> tuple[Any, int, bytes]:
    """(head, count, the rest)"""
    magic, head_len = struct.unpack_from(OPENING, body)
    assert magic == b"PSB1"
    (count,) = struct.unpack_from("<I", body, 8 + head_len)
    return json.loads(body[8 : 8 + head_len]), count, body[12 + head_len :]


@pytest.mark.parametrize(
    ("heading", "layout"), [("## Opening", OPENING), ("## Write", RECORD)], ids=["opening", "write"]
)
def test_a_byte_table_is_the_layout_that_is_read_here(heading: str, layout: str) -> None:
    sizes = sizes_of(layout)

    assert tables(PAGE, heading) == [[(sum(sizes[:at]), one) for at, one in enumerate(sizes)]]


def test_the_example_is_what_the_tables_say() -> None:
    head, count, rest = opened(example())

    records = []
    for _ in range(count):
        data_len, meta_len, tag_len, node_len = struct.unpack_from(RECORD, rest)
        parts = []
        at = 12
        for size in (tag_len, node_len, meta_len, data_len):
            parts.append(rest[at : at + size])
            at += size
        records.append(parts)
        rest = rest[at:]

    assert not rest
    assert head == {"node": "n"}
    assert records == [[b"flat:7", b"", b"", b'{"w":41}'], [b"", b"", b"", b"null"]]


def test_the_example_can_be_written_and_read_back(api: Api) -> None:
    reply = api.post("/v0/topics/example", example(), {"Content-Type": BATCH})

    assert (reply.status, reply.json["count"]) == (201, 2)
    shown = api.diff("example", include_tags=True)["records"]
    assert [(one["data"], one.get("$tag"), one["$node"]) for one in shown] == [
        ({"w": 41}, "flat:7", "n"),
        (None, None, "n"),
    ]


def test_a_page_is_a_head_and_frames_to_its_end(api: Api) -> None:
    api.write("paged", records=[{"data": 1, "tag": "a"}, {"data": [2], "meta": {"m": 1}}])

    reply = api.post("/v0/topics/paged/diff", b"", {"Accept": BATCH})
    asked = api.diff("paged")

    head, count, rest = opened(reply.body)
    found = frames(rest)
    assert reply.headers["content-type"] == BATCH
    assert set(head) == set(asked) - {"records"}
    assert all(f"`{name}`" in page(PAGE) for name in head)
    assert count == len(found) == 2
    assert {frame.type for frame in found} == {1}
    assert [frame.data for frame in found] == [b'{"d":1}', b'{"m":{"m":1},"d":[2]}']
    assert [(one.seq, one.tag) for one in found] == [(1, b"a"), (2, b"")]


@pytest.mark.parametrize(
    "body",
    [example()[:-1], example() + b"x", b"PSB2" + example()[4:], example()[:8], b""],
    ids=["short", "long", "another version", "no head", "nothing"],
)
def test_a_body_that_does_not_add_up_is_refused_whole(api: Api, body: bytes) -> None:
    reply = api.post("/v0/topics/refused", body, {"Content-Type": BATCH})

    assert reply.status == 400
    assert api.get("/v0/topics/refused").status == 404
