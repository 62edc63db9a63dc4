"""Routes: which handler serves a path, and the scope a caller needs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from penstock.server.auth import Scope
from penstock.server.errors import ApiError, not_allowed
from penstock.server.http.message import Request, Response

_KNOWN_PATHS_MAX: Final = 4096
_KNOWN_PATH_LETTERS_MAX: Final = 256


class PendingAnswer:
    """An answer that is made of the outcome of a call of the service: it costs no task and no
    future. The handler passes `resolve` as the callback, which is called once, on the loop, after
    the handler has returned."""

    __slots__ = ("_render", "answered")

    def __init__(self, render: Callable[[Any], Response]) -> None:
        self._render = render
        self.answered: Callable[[Response | Exception], None]  # set by whoever called the handler

    def resolve(self, outcome: object) -> None:
        """The call has ended with an exception, or with what `render` makes a response of."""
        if isinstance(outcome, Exception):
            self.answered(outcome)
            return
        try:
            response = self._render(outcome)
        except Exception as error:  # noqa: BLE001 - every exception gets an error answer
            self.answered(error)
        else:
            self.answered(response)


Answer = Response | None | PendingAnswer | Coroutine[Any, Any, Response | None]
Handler = Callable[[Request], Answer]
"""Returns a response, a pending one, a coroutine of one, or None when the handler answers later by
itself."""


@dataclass(frozen=True, slots=True)
class Route:
    """`template` has `:name` for a parameter. A key's prefixes are checked against the first
    parameter unless `is_named` is false."""

    method: str
    template: str
    handler: Handler
    scope: Scope = Scope.NONE
    is_open: bool = False  # no key needed
    is_early: bool = False  # answered while the log is still recovering
    is_named: bool = True
    is_stream: bool = False  # answers for long: not counted as in flight
    has_records: bool = False  # its body may be as large as the server allows
    act: str = ""  # the name of the act in the audit; empty: not audited


class Routes:
    """Immutable, but for the routes of recent paths. The time of a look-up does not depend on the
    number of routes. Event loop only."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.all = tuple(routes)
        self._found: dict[tuple[str, str], tuple[Route, tuple[str, ...]]] = {}
        self._root: dict[str | None, Any] = {}
        for route in self.all:
            node = self._root
            for part in route.template.split("/")[1:]:
                node = node.setdefault(None if part.startswith(":") else part, {})
            node.setdefault("", {})[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route, tuple[str, ...]]:
        """The route and the decoded parameters, or ApiError 404 or 405."""
        known = self._found.get((method, path))
        if known is not None:
            return known
        found = self._search(method, path)
        if len(path) <= _KNOWN_PATH_LETTERS_MAX:
            if len(self._found) >= _KNOWN_PATHS_MAX:
                self._found.clear()
            self._found[method, path] = found
        return found

    def _search(self, method: str, path: str) -> tuple[Route, tuple[str, ...]]:
        node = self._root
        params: list[str] = []
        if path[:1] != "/":
            raise _no_path()
        for part in path.split("/")[1:]:
            found = node.get(part) if part else None
            if found is None:
                found = node.get(None)
                if found is None or not part:
                    raise _no_path()
                params.append(_decoded(part) if "%" in part else part)
            node = found
        methods = node.get("")
        if methods is None:
            raise _no_path()
        route = methods.get(method)
        if route is None:
            raise not_allowed(method, methods)
        return route, tuple(params)


def _decoded(part: str) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise _no_path() from None


def _no_path() -> ApiError:
    return ApiError(
        404, "not_found", "no such endpoint: the API is under /v0, see /v0/openapi.json"
    )
