"""Checks of Host and Origin: the names of this server, and the pages that may call it.

A page on another site can make a visitor's browser talk to a server on loopback (DNS
rebinding, simple cross-site requests). Both are refused before any other check.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from penstock.errors import InvalidArgument
from penstock.server.errors import ApiError, forbidden
from penstock.server.settings import LOOPBACK_NAMES, ServerSettings

Headers = tuple[tuple[bytes, bytes], ...]

# The answer to a preflight request. The API has no cookies, so it needs no credentials.
PREFLIGHT: Final[Headers] = (
    (b"access-control-allow-methods", b"GET, PUT, POST, DELETE"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, idempotency-key, last-event-id, traceparent, tracestate",
    ),
    (b"access-control-max-age", b"600"),
)


class Origins:
    """Immutable except for a small cache of accepted hosts."""

    def __init__(self, settings: ServerSettings) -> None:
        extra = [one.strip().lower() for one in settings.allowed_hosts.split(",") if one.strip()]
        self._any_host = "*" in extra
        host = settings.host.lower()
        if ":" in host and not host.startswith("["):
            host = f"[{host}]"
        self._hosts = {*LOOPBACK_NAMES, host, *extra}
        self._origins = {
            one.strip().lower().rstrip("/")
            for one in settings.allowed_origins.split(",")
            if one.strip()
        }
        if "*" in self._origins:
            raise InvalidArgument(
                "PENSTOCK_ALLOWED_ORIGINS: `*` is not allowed, list the origins that may call"
            )
        self._good: set[bytes] = set()

    def check(self, headers: dict[bytes, bytes]) -> Headers:
        """Raise ApiError for a foreign Host or Origin; otherwise return the headers that let the
        page of an allowed origin read the answer."""
        host = headers.get(b"host")
        if host not in self._good:
            self._check_host(host)
        if headers.get(b"sec-fetch-site") == b"cross-site":
            self._check_origin(headers.get(b"origin"), None)
        origin = headers.get(b"origin")
        return () if origin is None else self._check_origin(origin, host)

    def _check_host(self, host: bytes | None) -> None:
        if not host or b"," in host:
            raise ApiError(400, "bad_request", "missing or repeated Host header: expected one")
        name = host_name(host)
        if name is None or not (self._any_host or name in self._hosts):
            raise ApiError(
                421,
                "misdirected_request",
                "unknown Host: add it to PENSTOCK_ALLOWED_HOSTS",
            )
        if len(self._good) < 256:
            self._good.add(host)

    def _check_origin(self, origin: bytes | None, host: bytes | None) -> Headers:
        text = (origin or b"").decode("latin-1").lower()
        if text in self._origins:
            return (
                (b"access-control-allow-origin", text.encode("latin-1")),
                (b"access-control-expose-headers", b"retry-after"),
                (b"vary", b"origin"),
            )
        if host is not None and _authority(text) == host.decode("latin-1").lower():
            return ()
        raise forbidden("this Origin may not call the server: add it to PENSTOCK_ALLOWED_ORIGINS")


def _authority(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # brackets that do not match
        return None


def host_name(host: bytes) -> str | None:
    """The name in a Host header without its port; None when it is malformed."""
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        name, bracket, rest = text.partition("]")
        name, port = name + bracket, rest.removeprefix(":")
        if rest and not rest.startswith(":"):
            return None
    else:
        name, _, port = text.partition(":")
    if port and not (port.isascii() and port.isdigit()):
        return None
    return name if name and "/" not in name and "@" not in name else None
