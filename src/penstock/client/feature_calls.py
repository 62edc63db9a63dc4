"""The calls of feature verbs, as `calls` has them for topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec

from penstock.client import answers
from penstock.client.calls import Call, json_call
from penstock.client.http import HttpResponse
from penstock.errors import InvalidArgument, ServerError
from penstock.feature_document import document_of
from penstock.feature_types import (
    FeatureError,
    FeatureKey,
    FeatureLoaded,
    FeatureRead,
    FeatureScan,
    FeatureTableState,
    FeatureTableStatus,
    Pushed,
    PushSync,
    Registered,
)
from penstock.types import Offset

LOAD_TIMEOUT_S: Final = 600.0
WAIT_S_MAX: Final = 30.0  # of a registration
Events = Mapping[str, Any] | bytes | Sequence[Mapping[str, Any] | bytes]
Reads = Sequence[FeatureRead | tuple[Any, ...]]
RowOrError = dict[str, Any] | FeatureError


class _Registered(msgspec.Struct):
    version: int
    changed: bool
    changes: list[dict[str, Any]]
    tables: dict[str, FeatureTableState]
    dry_run: bool = False


class _Document(msgspec.Struct):
    version: int
    events: list[dict[str, Any]]
    derived: list[dict[str, Any]]
    tables: list[dict[str, Any]]


class _Row(msgspec.Struct):
    row: dict[str, Any]


class _Result(msgspec.Struct):
    row: dict[str, Any] | None = None
    error: FeatureError | None = None


class _Results(msgspec.Struct):
    results: list[_Result]
    pushed: Pushed | None = None


class _Loaded(msgspec.Struct):
    table: str
    parts: list[str]
    snapshot: Offset
    applied: Offset
    keys: int
    saved: bool


class _Tables(msgspec.Struct):
    tables: list[FeatureTableStatus]


class _OneTable(msgspec.Struct):
    table: FeatureTableStatus


def register(
    nodes: Sequence[Any], *, dry_run: bool, force: bool, whole: bool, wait_s: float
) -> Call[Registered]:
    """Repeatable: to register the same again changes nothing."""

    def parse(response: HttpResponse, source: str) -> Registered:
        found = answers.decoded(response, _Registered, source)
        return Registered(found.version, found.changed, found.changes, found.tables, found.dry_run)

    wait_s = min(max(wait_s, 0.0), WAIT_S_MAX)
    body = {
        **document_of(nodes),
        "dry_run": dry_run,
        "force": force,
        "whole": whole,
        "wait_ms": round(wait_s * 1000),
    }
    return _post("definition", body, parse, is_change=True, wait_s=wait_s)


def definition() -> Call[_Document]:
    def parse(response: HttpResponse, source: str) -> _Document:
        return answers.decoded(response, _Document, source)

    return Call("GET", "/v0/features/definition", parse)


def push(event: str, data: Events, sync: PushSync | None) -> Call[Pushed]:
    """Not repeatable: a second attempt could append the events twice."""

    def parse(response: HttpResponse, source: str) -> Pushed:
        return answers.decoded(response, Pushed, source)

    target = path("push", event) + ("" if sync is None else f"?{urlencode({'sync': sync})}")
    return _post(target, _events(data), parse, is_change=True, is_repeatable=False)


def get(
    table: str,
    key: FeatureKey,
    features: Sequence[str] | None,
    *,
    as_of_seq: int | None = None,
    as_of_ts: int | None = None,
    eventual: bool = False,
) -> Call[dict[str, Any]]:
    def parse(response: HttpResponse, source: str) -> dict[str, Any]:
        return answers.decoded(response, _Row, source).row

    asked = _read(table, key, features)
    asked |= {} if as_of_seq is None else {"as_of_seq": as_of_seq}
    asked |= {} if as_of_ts is None else {"as_of_ts": as_of_ts}
    asked |= {"eventual": True} if eventual else {}
    return _post("get", asked, parse)


def batch_get(reads: Reads, *, eventual: bool) -> Call[list[RowOrError]]:
    def parse(response: HttpResponse, source: str) -> list[RowOrError]:
        return _rows(answers.decoded(response, _Results, source))

    asked = {"requests": [_read_of(one) for one in reads], "eventual": eventual}
    return _post("batch_get", asked, parse)


def push_and_get(
    event: str, data: Events, reads: Reads, sync: PushSync | None
) -> Call[tuple[Pushed, list[RowOrError]]]:
    """Not repeatable, as a push."""

    def parse(response: HttpResponse, source: str) -> tuple[Pushed, list[RowOrError]]:
        found = answers.decoded(response, _Results, source)
        if found.pushed is None:
            raise ServerError(source, reason="invalid answer: it has no `pushed`")
        return found.pushed, _rows(found)

    asked = {
        "event": event,
        "data": _events(data),
        "reads": [_read_of(one) for one in reads],
        "sync": sync,
    }
    return _post("push_get", asked, parse, is_change=True, is_repeatable=False)


def tables() -> Call[list[FeatureTableStatus]]:
    def parse(response: HttpResponse, source: str) -> list[FeatureTableStatus]:
        return answers.decoded(response, _Tables, source).tables

    return Call("GET", "/v0/features/tables", parse)


def table(name: str) -> Call[FeatureTableStatus]:
    def parse(response: HttpResponse, source: str) -> FeatureTableStatus:
        return answers.decoded(response, _OneTable, source).table

    return Call("GET", path("tables", name), parse)


def scan(
    table: str,
    after: int,
    limit: int,
    features: Sequence[str] | None,
    now_ms: int | None,
) -> Call[FeatureScan]:
    def parse(response: HttpResponse, source: str) -> FeatureScan:
        return answers.decoded(response, FeatureScan, source)

    asked: dict[str, Any] = {"table": table, "after": after, "limit": limit}
    asked |= {} if features is None else {"features": list(features)}
    asked |= {} if now_ms is None else {"now_ms": now_ms}
    return _post("scan", asked, parse)


def load(table: str, folder: str, timeout_s: float) -> Call[FeatureLoaded]:
    """Repeatable: a snapshot may be loaded twice."""

    def parse(response: HttpResponse, source: str) -> FeatureLoaded:
        found = answers.decoded(response, _Loaded, source)
        return FeatureLoaded(
            found.table, found.parts, found.snapshot, found.applied, found.keys, found.saved
        )

    body = {"table": table, "folder": folder}
    return _post("load", body, parse, is_change=True, wait_s=timeout_s)


def watch_url(table: str, key: FeatureKey, features: Sequence[str] | None) -> str:
    asked = {}
    if key is not None:
        asked["key"] = _encoded(_key(key)).decode()
    if isinstance(features, str):
        raise InvalidArgument(f"features is {features!r}: expected a list of names")
    if features is not None:
        asked["features"] = ",".join(features)
    return path("watch", table) + (f"?{urlencode(asked)}" if asked else "")


def path(verb: str, name: str) -> str:
    """The path of an event or of a table below a verb."""
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"invalid name {name!r}: expected a non-empty string")
    try:
        return f"/v0/features/{verb}/{quote(name, safe='')}"
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"invalid name: it is not valid Unicode ({error.reason})") from None


def _post(target: str, body: Any, parse: Any, **more: Any) -> Call[Any]:
    target = target if target.startswith("/") else f"/v0/features/{target}"
    return json_call("POST", target, msgspec.Raw(_encoded(body)), parse, **more)


def _encoded(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, UnicodeError, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"it cannot be sent as JSON: {error}") from None


def _events(data: Events) -> Any:
    if isinstance(data, (bytes, Mapping)):
        return _event(data)
    return [_event(one) for one in data]


def _event(data: Any) -> Any:
    if isinstance(data, bytes):
        try:
            msgspec.json.decode(data, type=msgspec.Raw)
        except msgspec.DecodeError as error:
            raise InvalidArgument(f"the event is no JSON: {error}") from None
        return msgspec.Raw(data)
    return dict(data) if isinstance(data, Mapping) else data


def _read(table: str, key: FeatureKey, features: Sequence[str] | None) -> dict[str, Any]:
    asked: dict[str, Any] = {"table": table}
    if key is not None:
        asked["key"] = _key(key)
    if isinstance(features, str):
        raise InvalidArgument(f"features is {features!r}: expected a list of names")
    if features is not None:
        asked["features"] = list(features)
    return asked


def _read_of(one: FeatureRead | tuple[Any, ...]) -> dict[str, Any]:
    read = one if isinstance(one, FeatureRead) else FeatureRead(*one)
    return _read(read.table, read.key, read.features)


def _key(key: FeatureKey) -> Any:
    return list(key) if isinstance(key, tuple) else key


def _rows(found: _Results) -> list[RowOrError]:
    return [one.error or one.row or {} for one in found.results]
