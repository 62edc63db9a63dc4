"""The bytes of a TCP connection that the peer has not acknowledged, from the operating system."""

from __future__ import annotations

import array
import sys
from typing import Protocol


class HasDescriptor(Protocol):
    def fileno(self) -> int: ...


if sys.platform == "linux":
    import fcntl
    import termios

    def unacked_bytes(link: HasDescriptor | None) -> int:
        """Bytes that were written to this TCP socket and not acknowledged by the other side."""
        if link is None:
            return 0
        found = array.array("i", [0])
        try:
            fcntl.ioctl(link.fileno(), termios.TIOCOUTQ, found)
        except (OSError, ValueError):
            return 0
        return found[0]

else:

    def unacked_bytes(link: HasDescriptor | None) -> int:
        """On other systems: 0."""
        return 0
