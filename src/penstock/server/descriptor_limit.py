"""How many connections the process has descriptors for, with enough left over for the log.

A log that cannot open its next file is closed for writing, so connections must never take the last
descriptor.
"""

from __future__ import annotations

import contextlib
import logging
import resource
from typing import Final

from penstock import limits

RESERVED: Final = limits.MAPPED_FILES_MAX + 64  # mapped segments; WAL files, marks, temporaries
_PLENTY: Final = 1 << 20  # stands for "no limit"

_log = logging.getLogger("penstock.server")


def bounded(wanted: int) -> int:
    """The number of connections that may be open at a time if `wanted` are requested; 0: any
    number. Raises the limit of the process as far as it may and needs to."""
    files = _raised((wanted or _PLENTY) + RESERVED)
    found = connections_max(files, wanted)
    if found < wanted // 2:  # slightly less is not worth a message
        _log.warning(
            "at most %d connections at a time instead of %d: this process may open %d files "
            "(raise it with `ulimit -n`)",
            found,
            wanted,
            files,
        )
    return found


def connections_max(files: int, wanted: int) -> int:
    """The number of connections for `files` descriptors. A process with very few divides them
    evenly."""
    room = max(1, files - min(RESERVED, files // 2))
    return min(wanted, room) if wanted else room


def _raised(needed: int) -> int:
    soft, hard = (_known(one) for one in resource.getrlimit(resource.RLIMIT_NOFILE))
    target = min(hard, needed)
    if soft < target:
        with contextlib.suppress(OSError, ValueError):  # then it stays as it is
            given = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, given))
            return target
    return soft


def _known(limit: int) -> int:
    return _PLENTY + RESERVED if limit == resource.RLIM_INFINITY else limit
