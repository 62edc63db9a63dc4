"""Exit codes: one table from what went wrong to the number a shell sees.

`docs/operations/cli.md` lists them for people; scripts may rely on them.
"""

from __future__ import annotations

import enum

from penstock.errors import (
    AlreadyDelivered,
    ConnectionFailed,
    CorruptFrame,
    DelayedNotFound,
    DirectoryInUse,
    Forbidden,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    RouterNotFound,
    SenderHalted,
    SpoolHole,
    StorageError,
    TableNotFound,
    TopicFull,
    TopicNotFound,
    Unauthorized,
    UsageError,
)


class ExitCode(enum.IntEnum):
    """What a shell sees. The names, in small letters, are the codes of `--json` errors."""

    OK = 0
    BUG = 1  # an unexpected exception; its traceback is printed
    USAGE = 2
    DAMAGE = 3
    IN_USE = 4
    STORAGE = 5
    OVERLOADED = 6
    TOPIC_NOT_FOUND = 7
    TOPIC_FULL = 8
    UNREACHABLE = 9
    DENIED = 10
    REFUSED = 11
    INTERRUPTED = 130  # 128 + SIGINT, as shells count
    PIPE_CLOSED = 141  # 128 + SIGPIPE: the reader of our output closed the pipe


# The first matching class decides, so subclasses come before their base classes.
BY_ERROR: tuple[tuple[type[Exception], ExitCode], ...] = (
    (TopicNotFound, ExitCode.TOPIC_NOT_FOUND),
    (RouterNotFound, ExitCode.TOPIC_NOT_FOUND),
    (TableNotFound, ExitCode.TOPIC_NOT_FOUND),
    (DelayedNotFound, ExitCode.TOPIC_NOT_FOUND),
    (AlreadyDelivered, ExitCode.TOPIC_NOT_FOUND),
    (TopicFull, ExitCode.TOPIC_FULL),
    (Unauthorized, ExitCode.DENIED),
    (Forbidden, ExitCode.DENIED),
    (UsageError, ExitCode.USAGE),
    (ConnectionFailed, ExitCode.UNREACHABLE),
    (OutcomeUnknown, ExitCode.UNREACHABLE),
    (Overloaded, ExitCode.OVERLOADED),
    (DirectoryInUse, ExitCode.IN_USE),
    (CorruptFrame, ExitCode.DAMAGE),
    (SpoolHole, ExitCode.DAMAGE),
    (SenderHalted, ExitCode.REFUSED),
    (StorageError, ExitCode.STORAGE),
    (PenstockError, ExitCode.STORAGE),
    (OSError, ExitCode.STORAGE),
)


def code_of(error: Exception) -> ExitCode:
    """The exit code of an error; BUG for one that is in no row."""
    return next((code for kind, code in BY_ERROR if isinstance(error, kind)), ExitCode.BUG)
