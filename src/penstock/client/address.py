"""The address of a server: a strictly parsed URL."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.errors import InvalidArgument

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """`prefix` is the path of the API, without a trailing slash."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"


def parse(url: str) -> Address:
    """The parts of `http://host:port[/prefix]` or `https://…`, or InvalidArgument."""
    if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidArgument(
            "invalid URL: expected ASCII text without blanks, such as http://127.0.0.1:4000"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidArgument(f"invalid URL: {error}") from None
    if parts.username is not None or parts.password is not None:
        # Not repeated in the message: it may be a secret.
        raise InvalidArgument("invalid URL: it has a user or a password; use token= instead")
    if parts.scheme not in _PORTS or not host:
        raise InvalidArgument(
            f"invalid URL {url!r}: expected http://host:port or https://host:port"
        )
    if parts.query or parts.fragment:
        raise InvalidArgument(f"invalid URL {url!r}: it has a query or a fragment")
    if port == 0:
        raise InvalidArgument(f"invalid URL {url!r}: port 0 is not a port of a server")
    return Address(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))
