"""Addresses of beava's listeners, and their sockets.

A socket may be bound long before it is served: clients that connect in between wait.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

from penstock.errors import InvalidArgument

_BACKLOG: Final = 1024


def address_of(text: str, setting: str) -> tuple[str, int]:
    """`host:port`, or a port of this machine's loopback."""
    host, _, port = text.strip().rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise InvalidArgument(f"{setting}={text}: expected host:port, such as 127.0.0.1:8080")
    return host.strip("[]") or "127.0.0.1", int(port)


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def bound(address: tuple[str, int]) -> socket.socket:
    """A socket that listens there."""
    host, port = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def shown(listener: socket.socket) -> str:
    """Where it listens, as `host:port`."""
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
