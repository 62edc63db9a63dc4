"""Penstock: a durable event log for Python."""

import importlib
from typing import TYPE_CHECKING, Any

from penstock.errors import (
    AlreadyDelivered,
    Backpressure,
    BatchTooLarge,
    Closed,
    ColdUnavailable,
    ConnectionFailed,
    CorruptFrame,
    DelayedNotFound,
    DirectoryInUse,
    Forbidden,
    FormatTooNew,
    FrameTooLarge,
    InvalidArgument,
    LogFailed,
    NetworkFilesystem,
    NotAQueue,
    OutcomeUnknown,
    Overloaded,
    PenstockError,
    PositionNotFound,
    RecordTooLarge,
    RouterCycle,
    RouterNotFound,
    SenderBusy,
    SenderHalted,
    SeqMismatch,
    ServerError,
    SlotInUse,
    SpoolFailed,
    SpoolFull,
    SpoolHole,
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
    DelayedBatch,
    DelayedInfo,
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
    from penstock.client.client import Client
    from penstock.client.connect import connect
    from penstock.client.worker import Worker
    from penstock.config import Settings
    from penstock.engine.engine import Log
    from penstock.engine.open_log import open_log as open
    from penstock.sender.async_sender import AsyncSender
    from penstock.sender.counters import SenderStatus
    from penstock.sender.error_policy import SenderError
    from penstock.sender.sender import Sender

__version__ = "0.1.0"

__all__ = [
    "AlreadyDelivered",
    "Appended",
    "AsyncClient",
    "AsyncSender",
    "Backpressure",
    "BatchTooLarge",
    "CaughtUp",
    "Claimed",
    "Client",
    "Closed",
    "ColdUnavailable",
    "ConnectionFailed",
    "CorruptFrame",
    "DelayedBatch",
    "DelayedInfo",
    "DelayedNotFound",
    "DirectoryInUse",
    "Dropped",
    "Forbidden",
    "FormatTooNew",
    "FrameTooLarge",
    "FramesPage",
    "Gap",
    "InvalidArgument",
    "Job",
    "JsonPage",
    "Log",
    "LogFailed",
    "NetworkFilesystem",
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
    "Sender",
    "SenderBusy",
    "SenderError",
    "SenderHalted",
    "SenderStatus",
    "SeqMismatch",
    "ServerError",
    "Settings",
    "Settled",
    "SlotInUse",
    "SpoolFailed",
    "SpoolFull",
    "SpoolHole",
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
    "AsyncSender": "penstock.sender.async_sender",
    "Client": "penstock.client.client",
    "Log": "penstock.engine.engine",
    "Sender": "penstock.sender.sender",
    "SenderError": "penstock.sender.error_policy",
    "SenderStatus": "penstock.sender.counters",
    "Settings": "penstock.config",
    "Worker": "penstock.client.worker",
    "connect": "penstock.client.connect",
    "open": "penstock.engine.open_log",
}

if not TYPE_CHECKING:  # a type checker would take any name for one of the package's

    def __getattr__(name: str) -> Any:
        """Loaded when they are first used: an embedded log needs no sockets, a client no log."""
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = importlib.import_module(_LATER[name])
        value = globals()[name] = getattr(module, "open_log" if name == "open" else name)
        return value
