"""What every request passes before its handler: Host, Origin, route, key, scope, name."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from penstock.errors import PenstockError
from penstock.server.auth import ANYONE, NOBODY, ApiKey, Keyring, Scope
from penstock.server.errors import ApiError, forbidden, response_of, unauthorized
from penstock.server.http import compression
from penstock.server.http.limits import SCREEN_BYTES, SMALL_BODY_BYTES
from penstock.server.http.message import Request, Response
from penstock.server.http.origins import PREFLIGHT, Origins
from penstock.server.http.routes import Answer, Route, Routes
from penstock.server.tickets import Tickets

_log = logging.getLogger("penstock.server")
_ASKED_BYTES: Final = 1024
_PROBES: Final = ("/v0/health", "/healthz", "/v0/ready", "/readyz")


class State(Protocol):
    """What the gate must know of the server."""

    is_stopping: bool

    def replay_progress(self) -> float | None:
        """How far recovery is, 0 to 1; None when it is over."""


class Gate:
    """Event loop only."""

    def __init__(
        self,
        routes: Routes,
        keyring: Keyring,
        origins: Origins,
        tickets: Tickets,
        state: State,
        *,
        inflight_max: int,
        body_bytes_max: int,
        is_probe_open: bool,
        audit: Callable[[str, dict[str, Any]], None] = lambda act, fields: None,
    ) -> None:
        self._audit = audit
        self.routes = routes
        self._keyring = keyring
        self._origins = origins
        self._tickets = tickets
        self._state = state
        self._inflight_max = inflight_max
        self._body_bytes_max = body_bytes_max
        self._is_probe_open = is_probe_open
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, request: Request) -> None:
        """Answer a complete request, now or later."""
        key = ANYONE
        try:
            shared = self._origins.check(request.headers)
            if shared:
                request.exchange.extra = shared
                if request.method == "OPTIONS":
                    request.exchange.respond(Response(200, b"", headers=PREFLIGHT))
                    return
            route = self.admit(request)
            key = request.key
            if request.body and request.headers.get(b"content-encoding") and route.method != "GET":
                answer: Answer = self._expand(request, route)
            else:
                answer = route.handler(request)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            self.fail(request, error)
        else:
            if answer is None:
                return  # the handler answers by itself
            if isinstance(answer, Response):
                request.exchange.respond(answer)
                return
            if key is not ANYONE and not route.is_stream:
                key.in_flight += 1
            task = asyncio.ensure_future(self._finish(request, route, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def screen(self, request: Request) -> int:
        """Refuse, before its body is read, what will be refused whatever the body; otherwise
        the most that the body may have."""
        if request.method == "GET":  # and no ticket is spent on the look
            return SCREEN_BYTES
        self._origins.check(request.headers)
        return self._body_max(self.admit(request))

    def _body_max(self, route: Route) -> int:
        most = self._body_bytes_max
        return most if route.has_records else min(most, SMALL_BODY_BYTES)

    def admit(self, request: Request) -> Route:
        """Find the route and check the caller; the key and the parameters stay in the request."""
        route: Route | None = None
        problem: ApiError | None = None
        try:
            route, request.params = self.routes.find(request.method, request.path)
            request.act = route.act
        except ApiError as error:
            problem = error
        progress = self._state.replay_progress()
        if progress is not None and (route is None or not route.is_early):
            raise ApiError(
                503, "not_ready", "the log is being recovered", {"replay_progress": progress}
            )
        if self._state.is_stopping:
            raise ApiError(503, "shutting_down", "the server is shutting down")
        if self._keyring.is_open:
            if problem is not None:
                raise problem
        else:
            self._check_key(request, route, problem)
        if route is None:
            raise AssertionError("a request without a route and without a problem")
        return route

    def _check_key(self, request: Request, route: Route | None, problem: ApiError | None) -> None:
        is_open = route is not None and route.is_open
        if is_open and (self._is_probe_open or not _is_probe(route)):
            if route is not None and route.is_stream:  # its handler asks for the very same key
                request.key = self._key_of(request, route) or NOBODY
            return
        key = self._key_of(request, route)
        if key is None:
            raise unauthorized("give a valid key: `Authorization: Bearer <key>`")
        request.key = key
        if self._inflight_max and key.in_flight >= self._inflight_max:
            raise ApiError(429, "throttled", "too many requests of this key are under way")
        scope = Scope.NONE if route is None else route.scope
        if problem is not None and request.path.startswith("/v0/topics/"):
            scope = Scope.WRITE  # an unknown sub-route: strangers learn nothing from it
        if not key.may(scope):
            raise forbidden("this key lacks the scope for it")
        if problem is not None:
            raise problem
        if route is not None and route.is_named and request.params:
            name = request.params[0]
            if not key.may_name(name):
                raise forbidden("this key may not use that name")

    def _key_of(self, request: Request, route: Route | None) -> ApiKey | None:
        key = self._keyring.find(request.headers.get(b"authorization"))
        if key is None and route is not None and route.is_stream:
            ticket = request.query("ticket")
            if ticket is not None:
                return self._tickets.redeem(ticket)
            token = request.query("token") if route.template != "/v0/ws" else None
            if token is not None:
                return self._keyring.find_token(token.encode())
        return key

    async def _expand(self, request: Request, route: Route) -> Response | None:
        """Undo the body's content encoding on another thread: it may be long."""
        encoding = request.headers[b"content-encoding"]
        request.body = await asyncio.get_running_loop().run_in_executor(
            None, compression.expanded, request.body, encoding, self._body_max(route)
        )
        answer = route.handler(request)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def _finish(
        self, request: Request, route: Route, answer: Coroutine[Any, Any, Response | None]
    ) -> None:
        try:
            response = await answer
            if response is not None:
                if request.act:
                    self._write_down(request, response.status)
                request.exchange.respond(response)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets an answer
            self.fail(request, error)
        finally:
            if request.key is not ANYONE and not route.is_stream:
                request.key.in_flight -= 1

    def fail(self, request: Request, error: Exception) -> None:
        response = response_of(error)
        if request.act:
            self._write_down(request, response.status)
        if response.status >= 500 and not isinstance(error, ApiError):
            # The path goes in escaped: it is a stranger's text. Payloads never do.
            where = f"{request.method} {request.path!r}"
            if isinstance(error, PenstockError):
                _log.error("%s failed: %s", where, error)
            else:
                _log.error("%s failed", where, exc_info=error)
        with contextlib.suppress(ConnectionError):
            request.exchange.respond(response)

    def _write_down(self, request: Request, status: int) -> None:
        """Who tried what, and whether it was done. Not what a body held, but for its beginning:
        it says what was deleted or moved."""
        key = request.key
        fields = {
            "name": request.params[0] if request.params else "",
            "key": None if key is ANYONE or key is NOBODY else key.digest.hex()[:12],
            "peer": request.peer,
            "status": status,
        }
        if request.body and status < 400:
            fields["asked"] = request.body[:_ASKED_BYTES].decode("utf-8", "replace")
        act, request.act = request.act, ""  # once, whatever happens next
        self._audit(act, fields)

    async def drain(self) -> None:
        """Wait for what is under way."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))


def _is_probe(route: Route | None) -> bool:
    """By the route that was found: a path can be written in more than one way."""
    return route is not None and route.template in _PROBES
