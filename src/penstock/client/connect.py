"""`penstock.connect`: a client of the server at a URL."""

from __future__ import annotations

import ssl

from penstock.client.client import Client
from penstock.client.client_options import Roll
from penstock.clock import Clock


def connect(
    url: str,
    token: str | None = None,
    *,
    timeout_s: float = 30.0,
    attempts_max: int = 8,
    idempotency: bool = True,
    tls: ssl.SSLContext | None = None,
    clock: Clock | None = None,
    roll: Roll | None = None,
) -> Client:
    """A client of the server at `http://host:port` or `https://…`. Sends nothing yet.

    `timeout_s` is the deadline of a call with all its attempts. With `idempotency` the client
    generates a key for each append, so that a repeated attempt is not appended twice.
    """
    return Client(
        url,
        token,
        timeout_s=timeout_s,
        attempts_max=attempts_max,
        idempotency=idempotency,
        tls=tls,
        clock=clock,
        roll=roll,
    )
