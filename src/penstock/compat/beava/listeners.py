"""beava's ports for `Server(listeners=…)`."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from penstock.compat.beava.admin_routes import AdminRoutes
from penstock.compat.beava.frame_verbs import FrameVerbs
from penstock.compat.beava.frames import PAYLOAD_BYTES_MAX
from penstock.compat.beava.http_listener import HttpListener
from penstock.compat.beava.http_routes import HttpRoutes
from penstock.compat.beava.tcp_listener import TcpListener
from penstock.compat.beava.verbs import BeavaVerbs
from penstock.server.adapters import Listener


def listeners(
    bound: Mapping[str, socket.socket],
    *,
    version: str,
    is_test_mode: bool = False,
    payload_bytes_max: int = PAYLOAD_BYTES_MAX,
) -> list[Listener]:
    """The ports `http`, `tcp` and `admin`, as far as they have a socket."""
    found: list[Listener] = []
    if "http" in bound:
        found.append(
            HttpListener(
                bound["http"],
                lambda site: (
                    HttpRoutes(BeavaVerbs(site.features, is_test_mode=is_test_mode)).answer
                ),
            )
        )
    if "tcp" in bound:
        found.append(
            TcpListener(
                bound["tcp"],
                lambda site: FrameVerbs(
                    BeavaVerbs(site.features, is_test_mode=is_test_mode), version
                ),
                payload_bytes_max,
            )
        )
    if "admin" in bound:
        found.append(HttpListener(bound["admin"], lambda site: AdminRoutes(site.features).answer))
    return found
