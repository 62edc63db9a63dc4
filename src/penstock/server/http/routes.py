"""Which handler a path belongs to, and what a caller needs for it. Data and a look-up."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from penstock.server.auth import Scope
from penstock.server.errors import ApiError, not_allowed
from penstock.server.http.message import Request, Response

Answer = Response | None | Coroutine[Any, Any, Response | None]
Handler = Callable[[Request], Answer]
"""A response; a coroutine that gives one; or None when the handler answers by itself later."""


@dataclass(frozen=True, slots=True)
class Route:
    """`template` has `:name` where a parameter stands. The first parameter is a topic unless
    `is_named` is false; a key's prefixes are checked against it."""

    method: str
    template: str
    handler: Handler
    scope: Scope = Scope.NONE
    is_open: bool = False  # no key needed
    is_early: bool = False  # answered while the log is still recovering
    is_named: bool = True
    is_stream: bool = False  # answers for long: not counted as in flight
    has_records: bool = False  # its body may be as large as the server allows
    act: str = ""  # what the audit calls it, if it is to be written down


class Routes:
    """Immutable once built. Looked up with a few dictionary steps, whatever the number."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.all = tuple(routes)
        self._root: dict[str | None, Any] = {}
        for route in self.all:
            node = self._root
            for part in route.template.split("/")[1:]:
                node = node.setdefault(None if part.startswith(":") else part, {})
            node.setdefault("", {})[route.method] = route

    def find(self, method: str, path: str) -> tuple[Route, tuple[str, ...]]:
        """The route and the decoded parameters, or the right ApiError."""
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
    return ApiError(404, "not_found", "there is nothing at this path")
