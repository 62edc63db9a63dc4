"""What a client was told when it was made: where the server is, who we are, how patient to be."""

from __future__ import annotations

import random
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.client import address as addresses
from penstock.client import calls, tracing
from penstock.client.address import Address
from penstock.client.calls import Call
from penstock.client.http import Request, checked_header
from penstock.client.retry import Policy
from penstock.client.trial import Trial
from penstock.clock import Clock, SystemClock
from penstock.errors import InvalidArgument

Roll = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Profile:
    """Immutable, and shows no secret: the headers are left out of its repr."""

    address: Address
    headers: Mapping[str, str] = field(repr=False)
    timeout_s: float
    policy: Policy
    has_keys: bool
    tls: ssl.SSLContext | None
    clock: Clock
    roll: Roll

    @property
    def source(self) -> str:
        """The server, in messages."""
        return str(self.address)

    def request(self, call: Call[Any]) -> Request:
        target = self.address.prefix + call.target
        return Request(call.method, target, {**self.headers, **call.headers}, call.body)

    def stream_request(self, stream_url: str, last_id: str) -> Request:
        headers = {**self.headers, "Accept": "text/event-stream"}
        if last_id:
            headers["Last-Event-ID"] = last_id
        return Request("GET", self.address.prefix + stream_url, headers)

    def trial(self, call: Call[Any]) -> Trial:
        return Trial(
            call,
            source=self.source,
            policy=self.policy,
            clock=self.clock,
            timeout_s=self.timeout_s,
            roll=self.roll,
        )

    def key(self, given: str | None) -> str | None:
        """The idempotency key of an append: what the caller says, or one made up for it."""
        return calls.new_key() if given is None and self.has_keys else given

    def backoff_s(self, attempt: int) -> float:
        """The pause of something that goes on for ever."""
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
) -> Profile:
    """Checked. `https` without a context of the caller's own verifies against the system's."""
    address = addresses.parse(url)
    if not timeout_s > 0:
        raise InvalidArgument(f"timeout_s must be a positive number, not {timeout_s!r}")
    if attempts_max < 1:
        raise InvalidArgument(f"attempts_max must be at least 1, not {attempts_max!r}")
    if tls is not None and not address.is_tls:
        raise InvalidArgument(f"{address} is not https, and a TLS context was given")
    if tls is None and address.is_tls:
        tls = ssl.create_default_context()
        # Some builds of Python leave the oldest version to the system's settings of OpenSSL.
        tls.minimum_version = max(tls.minimum_version, ssl.TLSVersion.TLSv1_2)
    headers = {"User-Agent": f"penstock/{_version()}"}
    if token is not None:
        if not isinstance(token, str) or not token or token != token.strip():
            raise InvalidArgument("a token is text without blanks around it, and not empty")
        headers["Authorization"] = f"Bearer {checked_header('token', token)}"
    return Profile(
        address,
        headers,
        timeout_s,
        Policy(attempts_max=attempts_max),
        idempotency,
        tls,
        clock or SystemClock(),
        roll or random.random,
    )


def _version() -> str:
    return str(getattr(sys.modules.get("penstock"), "__version__", "0"))
