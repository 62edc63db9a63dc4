"""The calls of table verbs, as `calls` has them for topics."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from penstock.client import answers, error_answers
from penstock.client.calls import Call, Steps, deleted, json_call
from penstock.client.http import HttpResponse
from penstock.errors import InvalidArgument
from penstock.projection_types import (
    GapPolicy,
    ProjectionStatus,
    TableInfo,
    TableKey,
    TablePage,
    TableRow,
)
from penstock.types import Offset


class _Table(msgspec.Struct):
    table: str
    topic: str
    key: str
    on_gap: GapPolicy
    bytes_max: int
    rows: int
    skipped: int
    progress: ProjectionStatus


class _Page(msgspec.Struct):
    tables: list[_Table]
    next_cursor: str | None = None


class _Rows(msgspec.Struct):
    rows: list[TableRow]
    count: int
    offset: Offset | None
    next_after: TableKey | None = None


def put(name: str, key: str, options: dict[str, Any]) -> Call[TableInfo]:
    body = {"key": key, **{name: one for name, one in options.items() if one is not None}}
    return json_call("PUT", path(name), body, _table, is_change=True)


def get(name: str) -> Call[TableInfo]:
    return Call("GET", path(name), _table)


def drop(name: str) -> Call[bool]:
    return Call("DELETE", path(name), deleted, is_change=True, is_repeatable=False)


def rebuild(name: str) -> Call[TableInfo]:
    return json_call("POST", path(name, "rebuild"), {}, _table, is_change=True)


def every(prefix: str) -> Steps[list[TableInfo]]:
    """All pages of the list."""

    def parse(response: HttpResponse, at: str) -> _Page:
        return answers.decoded(response, _Page, at)

    found: list[TableInfo] = []
    asked = {"prefix": prefix, "page_size": "1000"}
    while True:
        page: _Page = yield Call("GET", f"/v0/tables?{urlencode(asked)}", parse)
        found += map(_info, page.tables)
        if page.next_cursor is None:
            return found
        asked["cursor"] = page.next_cursor


def row(name: str, key: TableKey, *, eventual: bool) -> Call[TableRow | None]:
    """None when there is no row of this key. An empty text cannot be in a path: it is the first of
    all texts, so a scan finds it."""

    def parse(response: HttpResponse, at: str) -> TableRow | None:
        if response.status == 404:
            if b'"row_not_found"' in response.body:
                return None
            raise error_answers.error_of(response, at)
        return answers.decoded(response, TableRow, at)

    text, kind = _spelled(key)
    asked = {"key_type": kind, **({"eventual": "true"} if eventual else {})}
    target = f"{path(name, 'rows', text)}?{urlencode(asked)}"
    return Call("GET", target, parse, accepts=frozenset((404,)))


def rows(
    name: str, prefix: str, after: TableKey | None, limit: int, *, eventual: bool
) -> Call[TablePage]:
    def parse(response: HttpResponse, at: str) -> TablePage:
        found = answers.decoded(response, _Rows, at)
        return TablePage(found.rows, found.next_after, found.offset, found.count)

    if not isinstance(limit, int) or limit < 1:
        raise InvalidArgument(f"limit must be a positive number, not {limit!r}")
    asked = {"prefix": prefix, "limit": str(limit)}
    if after is not None:
        asked["after"], asked["after_type"] = _spelled(after)
    if eventual:
        asked["eventual"] = "true"
    return Call("GET", f"{path(name, 'rows')}?{urlencode(asked)}", parse)


def watch_url(name: str, after: Offset | None) -> str:
    if after is None:
        return path(name, "watch")
    return f"{path(name, 'watch')}?epoch={after.epoch}&seq={after.seq}"


def path(name: str, *more: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"invalid table name {name!r}: expected a non-empty string")
    try:
        return "/v0/tables/" + "/".join(quote(part, safe="") for part in (name, *more))
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"invalid name: it is not valid Unicode ({error.reason})") from None


def _spelled(key: TableKey) -> tuple[str, str]:
    """A key as text, and its type."""
    if isinstance(key, str):
        return key, "text"
    if isinstance(key, bool):
        return ("true" if key else "false"), "bool"
    if isinstance(key, int):
        return str(key), "int"
    raise InvalidArgument(f"invalid key {key!r}: expected text, a whole number, true or false")


def _table(response: HttpResponse, source: str) -> TableInfo:
    return _info(answers.decoded(response, _Table, source))


def _info(one: _Table) -> TableInfo:
    return TableInfo(
        one.table,
        one.topic,
        one.key,
        one.on_gap,
        one.bytes_max,
        one.rows,
        one.skipped,
        one.progress,
    )
