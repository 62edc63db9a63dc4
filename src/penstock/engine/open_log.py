"""`penstock.open`: open the log in a directory, or create it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from penstock import config as config_
from penstock.clock import Clock, SystemClock
from penstock.config import Settings
from penstock.engine import opening
from penstock.engine.core import LogCore
from penstock.engine.engine import Log
from penstock.engine.maintenance import Progress
from penstock.errors import InvalidArgument
from penstock.storage.fs import Filesystem, OsFilesystem


def open_log(
    path: str | os.PathLike[str],
    *,
    settings: Settings | None = None,
    fs: Filesystem | None = None,
    clock: Clock | None = None,
    random_bytes: Callable[[int], bytes] = os.urandom,
    progress: Progress = lambda done, total: None,
    **overrides: Any,
) -> Log:
    """Open the log in this directory, or create it.

    Settings come from `PENSTOCK_*` unless given. The directory is locked until `close`.
    """
    if settings is None:
        settings = config_.from_environment(os.environ, **overrides)
    elif overrides:
        raise InvalidArgument(f"specify settings or single fields, not both: {sorted(overrides)}")
    root = os.path.abspath(os.fspath(path))
    parts = opening.open_parts(
        fs or OsFilesystem(), clock or SystemClock(), root, settings, random_bytes, progress
    )
    log = Log(LogCore(parts))
    log.core.projections.start()
    log.core.features.start()
    return log
