"""Where a server is: a URL taken apart, once and strictly."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from penstock.errors import InvalidArgument

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """`prefix` is the path the API lives under, without a slash at its end."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.prefix}"


def parse(url: str) -> Address:
    """The parts of `http://host:port[/prefix]` or `https://…`, or InvalidArgument."""
    if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidArgument("a URL is ASCII text without blanks, such as http://127.0.0.1:4000")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidArgument(f"not a URL: {error}") from None
    if parts.username is not None or parts.password is not None:
        # Not repeated in the message: it may be a secret.
        raise InvalidArgument("a URL with a user or a password in it is refused; give token=")
    if parts.scheme not in _PORTS or not host:
        raise InvalidArgument(f"{url!r} is not http://host:port or https://host:port")
    if parts.query or parts.fragment:
        raise InvalidArgument(f"{url!r} has a query or a fragment, and a server has none")
    if port == 0:
        raise InvalidArgument(f"{url!r}: nobody listens on port 0")
    return Address(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))
