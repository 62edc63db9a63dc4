"""The checks before a handler: Host, Origin, route, key, scope, name."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from penstock.errors import Overloaded, PenstockError
from penstock.server.auth import ANYONE, NOBODY, ApiKey, Keyring, Scope
from penstock.server.auth_tickets import AuthTickets
from penstock.server.errors import ApiError, forbidden, response_of, unauthorized
from penstock.server.http import compression
from penstock.server.http.connection_limits import SCREEN_BYTES, SMALL_BODY_BYTES
from penstock.server.http.message import Request, Response
from penstock.server.http.origins import PREFLIGHT, Origins
from penstock.server.http.routes import Answer, PendingAnswer, Route, Routes
from penstock.server.key_limits import RequestLimit, begin_request, end_request
from penstock.server.readiness import Readiness

_log = logging.getLogger("penstock.server")
_ASKED_BYTES: Final = 1024
_PROBES: Final = ("/v0/health", "/healthz", "/v0/ready", "/readyz")


class AccessControl:
    """Event loop only."""

    def __init__(
        self,
        routes: Routes,
        keyring: Keyring,
        origins: Origins,
        tickets: AuthTickets,
        readiness: Readiness,
        *,
        request_limit: RequestLimit,
        body_bytes_max: int,
        is_probe_open: bool,
        audit: Callable[[str, dict[str, Any]], None] = lambda act, fields: None,
    ) -> None:
        self._audit = audit
        self.routes = routes
        self._keyring = keyring
        self._origins = origins
        self._tickets = tickets
        self._readiness = readiness
        self._request_limit = request_limit
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
            encoding = request.headers.get(b"content-encoding")
            if encoding and request.received and route.method != "GET":
                answer: Answer = self._expand(request, route)
            else:
                answer = route.handler(request)
        except Exception as error:  # noqa: BLE001 - every exception gets an error answer
            self.fail(request, error)
        else:
            if answer is None:
                return  # the handler answers later
            if isinstance(answer, Response):
                request.exchange.respond(answer)
                return
            if key is not ANYONE and not route.is_stream:
                begin_request(key)
            if isinstance(answer, PendingAnswer):
                answer.answered = functools.partial(self._answer, request, route)
                return
            task = asyncio.ensure_future(self._finish(request, route, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def screen(self, request: Request) -> int:
        """Raise the ApiError of a request that is refused whatever its body, before the body is
        read; otherwise return the maximum size of the body."""
        if request.method == "GET":  # admitting it here would spend its ticket
            return SCREEN_BYTES
        self._origins.check(request.headers)
        return self._body_max(self.admit(request))

    def _body_max(self, route: Route) -> int:
        most = self._body_bytes_max
        return most if route.has_records else min(most, SMALL_BODY_BYTES)

    def admit(self, request: Request) -> Route:
        """Find the route and check the caller; sets the key and the parameters of the request."""
        route: Route | None = None
        problem: ApiError | None = None
        try:
            route, request.params = self.routes.find(request.method, request.path)
            request.act = route.act
        except ApiError as error:
            problem = error
        if not self._readiness.is_serving:
            self._readiness.check(is_early=route is not None and route.is_early)
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
            if route is not None and route.is_stream:  # its handler compares the key
                request.key = self._key_of(request, route) or NOBODY
            return
        key = self._key_of(request, route)
        if key is None:
            raise unauthorized("missing or unknown key: expected `Authorization: Bearer <key>`")
        request.key = key
        self._request_limit.check(key)
        scope = Scope.NONE if route is None else route.scope
        if problem is not None and request.path.startswith("/v0/topics/"):
            scope = Scope.WRITE  # so that a key without it cannot find out which paths exist
        if not key.may(scope):
            raise forbidden("the key lacks the scope of this call: see /v0/openapi.json")
        if problem is not None:
            raise problem
        if route is not None and route.is_named and request.params:
            name = request.params[0]
            if not key.may_name(name):
                raise forbidden("the key may not use this name: none of its prefixes matches")

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
        """Decompress the body on another thread, because it may take long."""
        encoding = request.headers[b"content-encoding"]
        request.body = await asyncio.get_running_loop().run_in_executor(
            None, compression.expanded, request.body, encoding, self._body_max(route)
        )
        answer = route.handler(request)
        if isinstance(answer, PendingAnswer):
            return await _awaited(answer)
        return await answer if asyncio.iscoroutine(answer) else answer

    async def _finish(
        self, request: Request, route: Route, answer: Coroutine[Any, Any, Response | None]
    ) -> None:
        try:
            response = await answer
        except Exception as error:  # noqa: BLE001 - every exception gets an error answer
            # Kept in no variable: its traceback holds this frame, and bodies with it.
            self._answer(request, route, error)
        except BaseException:
            self._end(request, route)
            raise
        else:
            self._answer(request, route, response)

    def _answer(self, request: Request, route: Route, outcome: Response | Exception | None) -> None:
        """Answer a request that was begun before."""
        try:
            if isinstance(outcome, Response):
                if request.act:
                    self._write_down(request, outcome.status)
                request.exchange.respond(outcome)
            elif outcome is not None:
                self.fail(request, outcome)
        except Exception as error:  # noqa: BLE001 - every exception gets an error answer
            self.fail(request, error)
        finally:
            self._end(request, route)

    def _end(self, request: Request, route: Route) -> None:
        if request.key is not ANYONE and not route.is_stream:
            end_request(request.key)

    def fail(self, request: Request, error: Exception) -> None:
        response = response_of(error)
        if request.act:
            self._write_down(request, response.status)
        if response.status >= 500 and not isinstance(error, (ApiError, Overloaded)):
            # The path is escaped, because the caller chose it. Payloads are never logged.
            where = f"{request.method} {request.path!r}"
            if isinstance(error, PenstockError):
                _log.error("%s failed: %s", where, error)
            else:
                _log.error("%s failed", where, exc_info=error)
        with contextlib.suppress(ConnectionError):
            request.exchange.respond(response)

    def _write_down(self, request: Request, status: int) -> None:
        """Record the act in the audit, with the start of the body: it says what was deleted or
        moved."""
        key = request.key
        fields = {
            "name": request.params[0] if request.params else "",
            "key": None if key is ANYONE or key is NOBODY else key.digest.hex()[:12],
            "peer": request.peer,
            "status": status,
        }
        if request.received and status < 400:
            asked = bytes(request.received[:_ASKED_BYTES])
            fields["asked"] = asked.decode("utf-8", "replace")
        elif len(request.params) > 1 and status < 400:  # what of the name
            fields["asked"] = "/".join(request.params[1:])
        act, request.act = request.act, ""  # recorded once
        self._audit(act, fields)

    async def drain(self) -> None:
        """Wait for the requests in flight."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))


async def _awaited(pending: PendingAnswer) -> Response:
    answered: asyncio.Future[Response | Exception] = asyncio.get_running_loop().create_future()
    pending.answered = answered.set_result
    outcome = await answered
    try:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome
    finally:
        del outcome, answered  # its traceback holds this frame, which would hold it


def _is_probe(route: Route | None) -> bool:
    """Compare the route and not the path, which can be written in more than one way."""
    return route is not None and route.template in _PROBES
