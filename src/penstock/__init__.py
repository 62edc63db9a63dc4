"""Penstock: a durable event log for Python."""

import importlib
from typing import TYPE_CHECKING, Any

from penstock.config import Settings
from penstock.engine.engine import Log
from penstock.engine.engine import open_log as open
from penstock.errors import (
    BatchTooLarge,
    Closed,
    ConnectionFailed,
    CorruptFrame,
    DirectoryInUse,
    Forbidden,
    FormatTooNew,
    InvalidArgument,
    LogFailed,
    NotAQueue,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    PositionNotFound,
    RecordTooLarge,
    RouterCycle,
    RouterNotFound,
    SeqMismatch,
    ServerError,
    StorageError,
    TopicExists,
    TopicFull,
    TopicNotFound,
    Unauthorized,
    UsageError,
)
from penstock.types import (
    Appended,
    CaughtUp,
    Claimed,
    Dropped,
    FramesPage,
    Gap,
    Job,
    JsonPage,
    Page,
    Position,
    QueueCounts,
    QueueRules,
    Record,
    Redriven,
    Removed,
    RouterInfo,
    Schedule,
    Settled,
    TopicConfig,
    TopicInfo,
)

if TYPE_CHECKING:
    from penstock.client.async_client import AsyncClient
    from penstock.client.client import Client, connect
    from penstock.client.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "Appended",
    "AsyncClient",
    "BatchTooLarge",
    "CaughtUp",
    "Claimed",
    "Client",
    "Closed",
    "ConnectionFailed",
    "CorruptFrame",
    "DirectoryInUse",
    "Dropped",
    "Forbidden",
    "FormatTooNew",
    "FramesPage",
    "Gap",
    "InvalidArgument",
    "Job",
    "JsonPage",
    "Log",
    "LogFailed",
    "NotAQueue",
    "OutcomeUnknown",
    "Overloaded",
    "Page",
    "PenstockError",
    "Position",
    "PositionNotFound",
    "QueueCounts",
    "QueueRules",
    "Record",
    "RecordTooLarge",
    "Redriven",
    "Removed",
    "RouterCycle",
    "RouterInfo",
    "RouterNotFound",
    "Schedule",
    "SeqMismatch",
    "ServerError",
    "Settings",
    "Settled",
    "StorageError",
    "TopicConfig",
    "TopicExists",
    "TopicFull",
    "TopicInfo",
    "TopicNotFound",
    "Unauthorized",
    "UsageError",
    "Worker",
    "connect",
    "open",
]

_LATER = {
    "AsyncClient": "penstock.client.async_client",
    "Client": "penstock.client.client",
    "Worker": "penstock.client.worker",
    "connect": "penstock.client.client",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of the package's

    def __getattr__(name: str) -> Any:
        """The clients are loaded when they are first used: an embedded log needs no sockets."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_LATER[name]), name)
        return value
