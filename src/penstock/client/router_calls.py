"""The calls of router verbs, as `calls` has them for topics."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from penstock.client import answers
from penstock.client.calls import Call, Steps, deleted, json_call
from penstock.client.http import HttpResponse
from penstock.types import RouterInfo


class _Router(msgspec.Struct):
    router: str
    source: str
    dest: str
    preserve_node: bool = True
    preserve_tag: bool = True
    filter: tuple[str, str, str] | None = None
    allow_cycle: bool = False
    guarantee: str = "at_least_once"
    cursor: int = 0
    forwarded_total: int = 0
    lag_records: int = 0
    created: bool = False
    stopped: str | None = None


class _Page(msgspec.Struct):
    routers: list[_Router]
    next_cursor: str | None = None


def put(
    name: str, source: str, dest: str, *, exactly_once: bool = False, **rules: Any
) -> Call[RouterInfo]:
    guarantee = "exactly_once" if exactly_once else "at_least_once"
    body = {"source": source, "dest": dest, "guarantee": guarantee, **rules}
    return json_call("PUT", _path(name), body, _router, is_change=True)


def get(name: str) -> Call[RouterInfo]:
    return Call("GET", _path(name), _router)


def drop(name: str) -> Call[bool]:
    return Call("DELETE", _path(name), deleted, is_change=True, is_repeatable=False)


def every(prefix: str, source: str, dest: str) -> Steps[list[RouterInfo]]:
    """All pages of the list."""

    def parse(response: HttpResponse, at: str) -> _Page:
        return answers.decoded(response, _Page, at)

    found: list[RouterInfo] = []
    asked = {"prefix": prefix, "source": source, "dest": dest, "page_size": "1000"}
    while True:
        page: _Page = yield Call("GET", f"/v0/routers?{urlencode(asked)}", parse)
        found += map(_info, page.routers)
        if page.next_cursor is None:
            return found
        asked["cursor"] = page.next_cursor


def _path(name: str) -> str:
    return f"/v0/routers/{quote(name, safe='')}"


def _router(response: HttpResponse, source: str) -> RouterInfo:
    return _info(answers.decoded(response, _Router, source))


def _info(one: _Router) -> RouterInfo:
    return RouterInfo(
        one.router,
        one.source,
        one.dest,
        one.preserve_node,
        one.preserve_tag,
        one.filter,
        one.allow_cycle,
        one.guarantee == "exactly_once",
        one.cursor,
        one.forwarded_total,
        one.lag_records,
        one.created,
        one.stopped or "",
    )
