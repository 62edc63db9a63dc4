"""The options of a client: address, token, timeout, retry policy, TLS and clock."""

from __future__ import annotations

import random
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock import append_options
from penstock.append_options import AppendKeywords, AppendOptions
from penstock.client import address as addresses
from penstock.client import calls, tracing
from penstock.client.address import Address
from penstock.client.calls import Call
from penstock.client.http import HttpRequest, checked_header
from penstock.client.retry import Retry, RetryPolicy
from penstock.clock import Clock, SystemClock
from penstock.errors import InvalidArgument

Roll = Callable[[], float]


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """Immutable. Its repr leaves out the headers, which contain the token."""

    address: Address
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    policy: RetryPolicy
    has_keys: bool
    tls: ssl.SSLContext | None
    clock: Clock
    roll: Roll

    @property
    def source(self) -> str:
        """The address of the server, for messages."""
        return str(self.address)

    def request(self, call: Call[Any]) -> HttpRequest:
        target = self.address.prefix + call.target
        return HttpRequest(call.method, target, {**self.headers, **call.headers}, call.body)

    def stream_request(self, stream_url: str, last_id: str) -> HttpRequest:
        headers = {**self.headers, "Accept": "text/event-stream"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        return HttpRequest("GET", self.address.prefix + stream_url, headers)

    def retry(self, call: Call[Any]) -> Retry:
        return Retry(
            call,
            source=self.source,
            policy=self.policy,
            clock=self.clock,
            timeout_s=self.timeout_s,
            roll=self.roll,
        )

    def key(self, given: str | None) -> str | None:
        """The idempotency key of an append: the given one, or a new one."""
        return calls.new_key() if given is None and self.has_keys else given

    def append_options(self, given: AppendKeywords) -> AppendOptions:
        """The checked options of an append, with a key."""
        options = append_options.checked(given)
        key = self.key(options.idempotency_key)
        return msgspec.structs.replace(options, idempotency_key=key)

    def backoff_s(self, attempt: int) -> float:
        """The pause before `follow` or `watch` reconnects."""
        return self.policy.backoff_s(attempt, self.roll())

    def trace_headers(self) -> dict[str, str]:
        return tracing.headers()


def make(
    url: str,
    token: str | None,
    *,
    timeout_s: float,
    attempts_max: int,
    idempotency: bool,
    tls: ssl.SSLContext | None,
    clock: Clock | None,
    roll: Roll | None,
) -> ClientOptions:
    """Check the options. Without `tls`, `https` verifies against the system's certificates."""
    address = addresses.parse(url)
    if not timeout_s > 0:
        raise InvalidArgument(f"timeout_s must be a positive number, not {timeout_s!r}")
    if attempts_max < 1:
        raise InvalidArgument(f"attempts_max must be at least 1, not {attempts_max!r}")
    if tls is not None and not address.is_tls:
        raise InvalidArgument(f"a TLS context was given for {address}: expected an https URL")
    if tls is None and address.is_tls:
        tls = ssl.create_default_context()
        # Some builds of Python take the minimum version from the OpenSSL configuration.
        tls.minimum_version = max(tls.minimum_version, ssl.TLSVersion.TLSv1_2)
    headers = {"User-Agent": f"penstock/{_version()}"}
    if token is not None:
        if not isinstance(token, str) or not token or token != token.strip():
            raise InvalidArgument(
                "invalid token: expected a non-empty string without leading or trailing blanks"
            )
        headers["Authorization"] = f"Bearer {checked_header('token', token)}"
    return ClientOptions(
        address,
        headers,
        timeout_s,
        RetryPolicy(attempts_max=attempts_max),
        idempotency,
        tls,
        clock or SystemClock(),
        roll or random.random,
    )


def _version() -> str:
    return str(getattr(sys.modules.get("penstock"), "__version__", "0"))
