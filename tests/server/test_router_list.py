"""GET /v0/routers: sorted, in pages, by name, source and dest."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.routers import chain, names, put, remove, route
from tests.server.support import Api, holds, new_name, refused
from tests.support.serving import eventually


def listed(api: Api, **query: Any) -> Any:
    text = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
    reply = api.get(f"/v0/routers?{text}")
    assert reply.status == 200, (reply.status, reply.body)
    return reply.json


def names_in(answer: Any) -> list[str]:
    return [item["router"] for item in answer["routers"]]


def paged(api: Api, **query: Any) -> list[list[str]]:
    """The names, page by page."""
    pages = []
    while True:
        answer = listed(api, **query)
        pages.append(names_in(answer))
        if "next_cursor" not in answer:
            return pages
        assert re.fullmatch(r"[A-Za-z0-9._~=-]+", answer["next_cursor"])
        query["cursor"] = answer["next_cursor"]


@pytest.fixture
def prefix() -> str:
    return new_name("list") + ".x"  # so that none is the prefix of another


def fan(api: Api, prefix: str, *ends: str) -> str:
    """Routers `prefix.end` of one source to a topic each; the source."""
    source = new_name()
    for end in ends:
        put(api, f"{prefix}.{end}", source, new_name())
    return source


def test_the_list_is_sorted_and_says_each_in_short(api: Api, prefix: str) -> None:
    source = fan(api, prefix, "b", "a", "B", "c>")
    dest = new_name()
    put(api, f"{prefix}.a0", source, dest, guarantee="exactly_once")

    answer = listed(api, prefix=f"{prefix}.")

    assert names_in(answer) == [f"{prefix}.{end}" for end in ("B", "a", "a0", "b", "c>")]
    item = answer["routers"][2]
    assert holds(
        item,
        {
            "router": f"{prefix}.a0",
            "source": source,
            "dest": dest,
            "guarantee": "exactly_once",
            "forwarded_total": 0,
        },
    )
    assert answer["routers"][0]["guarantee"] == "at_least_once"
    assert "next_cursor" not in answer


def test_the_totals_arrive(api: Api, prefix: str) -> None:
    source = fan(api, prefix, "a", "b")

    api.write(source, 1, 2, 3)

    def totals() -> list[int]:
        return [item["forwarded_total"] for item in listed(api, prefix=prefix)["routers"]]

    eventually(lambda: totals() == [3, 3], "both have copied three")


def test_the_list_is_narrowed_by_source_and_dest(api: Api) -> None:
    a, b, c, d = names(4)
    ab, bc = chain(api, [a, b, c])
    ad = route(api, a, d)

    assert names_in(listed(api, source=a)) == sorted([ab, ad])
    assert names_in(listed(api, source=b)) == [bc]
    assert names_in(listed(api, dest=b)) == [ab]
    assert names_in(listed(api, source=a, dest=d)) == [ad]
    assert names_in(listed(api, source=b, dest=d)) == []
    assert names_in(listed(api, source=a, prefix=f"{a}->{d}")) == [ad]
    assert names_in(listed(api, source=a[:-1] + "?")) == []
    assert names_in(listed(api, source=new_name())) == []


def test_a_source_is_a_whole_name(api: Api) -> None:
    a, b = names(2)
    longer = f"{a}.more"
    route(api, longer, b)

    assert names_in(listed(api, source=a)) == []
    assert names_in(listed(api, source=longer)) == [f"{longer}->{b}"]


def test_all_are_listed_without_a_query(api: Api, prefix: str) -> None:
    fan(api, prefix, "a")
    found: list[str] = []
    for page in paged(api, page_size=1000):
        found += page

    assert f"{prefix}.a" in found
    assert found == sorted(found)


def test_pages_follow_one_another(api: Api, prefix: str) -> None:
    fan(api, prefix, *(f"{n}>" for n in range(7)))
    expected = [f"{prefix}.{n}>" for n in range(7)]

    pages = paged(api, prefix=f"{prefix}.", page_size=3)

    assert pages == [expected[:3], expected[3:6], expected[6:]]


def test_pages_of_a_narrowed_list_skip_nothing(api: Api, prefix: str) -> None:
    one = fan(api, prefix, "a1", "b1", "c1")
    two = fan(api, prefix, "a2", "b2", "c2")

    for source, end in ((one, "1"), (two, "2")):
        pages = paged(api, prefix=f"{prefix}.", source=source, page_size=1)

        assert pages == [[f"{prefix}.{letter}{end}"] for letter in "abc"]


def test_the_last_full_page_has_no_cursor(api: Api, prefix: str) -> None:
    fan(api, prefix, *"abcd")

    assert paged(api, prefix=f"{prefix}.", page_size=4) == [[f"{prefix}.{end}" for end in "abcd"]]


def test_a_cursor_survives_a_router_that_went(api: Api, prefix: str) -> None:
    fan(api, prefix, *"abcd")
    page = listed(api, prefix=f"{prefix}.", page_size=2)
    remove(api, f"{prefix}.b")
    fan(api, prefix, "bb")

    rest = listed(api, prefix=f"{prefix}.", cursor=page["next_cursor"])

    assert names_in(rest) == [f"{prefix}.{end}" for end in ("bb", "c", "d")]


def test_the_size_of_a_page_is_held_within_its_bounds(api: Api, prefix: str) -> None:
    fan(api, prefix, *"abc")

    assert len(listed(api, prefix=prefix, page_size=0)["routers"]) == 1
    assert len(listed(api, prefix=prefix, page_size=100_000)["routers"]) == 3
    for size in ("many", "", "1.5"):
        assert len(listed(api, prefix=prefix, page_size=size)["routers"]) == 3


@pytest.mark.parametrize(
    "cursor",
    [
        "%%%not-base64%%%",
        "not-base64!",
        "AAAA",
        "%",
        base64.urlsafe_b64encode(b"[]").decode(),
        base64.urlsafe_b64encode(b'{"after":5}').decode(),
        base64.urlsafe_b64encode(b"\xff\xfe\xfd").decode(),
    ],
)
def test_a_cursor_that_is_none_of_ours_is_refused(api: Api, cursor: str) -> None:
    refused(api.get(f"/v0/routers?cursor={cursor}"), 400, "invalid_request")


def test_an_empty_cursor_is_no_cursor(api: Api, prefix: str) -> None:
    fan(api, prefix, "a")

    assert names_in(listed(api, prefix=prefix, cursor="")) == [f"{prefix}.a"]


def test_the_prefix_is_literal_and_percent_decoded(api: Api, prefix: str) -> None:
    fan(api, prefix, ">a", ".a")

    assert len(listed(api, prefix=prefix)["routers"]) == 2
    assert names_in(listed(api, prefix=f"{prefix}.>")) == [f"{prefix}.>a"]
    assert names_in(listed(api, prefix=f"{prefix}*")) == []


def test_a_router_that_went_is_not_listed(api: Api, prefix: str) -> None:
    source = fan(api, prefix, "a", "b")

    remove(api, f"{prefix}.a")
    assert names_in(listed(api, source=source)) == [f"{prefix}.b"]
    api.drop(source)

    assert names_in(listed(api, source=source)) == []
