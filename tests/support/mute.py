"""A TCP proxy that can keep to itself what the server says, so that a client sends again what the
server has long done."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

from tests.support.serving import Address

_RESET = struct.pack("ii", 1, 0)  # linger for no time


class MuteProxy:
    """A context manager. While it is mute, only a first answer passes, which is a handshake's."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: Address = self._listener.getsockname()
        self.is_mute = False
        self._links: list[socket.socket] = []

    def __enter__(self) -> MuteProxy:
        threading.Thread(target=self._serve, name="mute", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Reset every connection."""
        links, self._links = self._links, []
        for link in links:
            with suppress(OSError):
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                link.shutdown(socket.SHUT_RDWR)
            link.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._target)
                except OSError:
                    client.close()
                    continue
                self._links += (client, server)
                for way in ((client, server, False), (server, client, True)):
                    threading.Thread(target=self._pump, args=way, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_server: bool) -> None:
        is_first = True
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if is_first or not (is_server and self.is_mute):
                    sink.sendall(data)
                is_first = False
        for link in (source, sink):
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
