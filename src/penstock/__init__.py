"""Penstock: a durable event log for Python."""

from penstock.config import Settings
from penstock.engine.engine import Log
from penstock.engine.engine import open_log as open
from penstock.errors import (
    BatchTooLarge,
    Closed,
    CorruptFrame,
    DirectoryInUse,
    FormatTooNew,
    InvalidArgument,
    LogFailed,
    Overloaded,
    PenstockError,
    RecordTooLarge,
    StorageError,
    TopicExists,
    TopicFull,
    TopicNotFound,
    UsageError,
)
from penstock.types import (
    Appended,
    Gap,
    JsonPage,
    Page,
    Record,
    Removed,
    TopicConfig,
    TopicInfo,
)

__version__ = "0.1.0"

__all__ = [
    "Appended",
    "BatchTooLarge",
    "Closed",
    "CorruptFrame",
    "DirectoryInUse",
    "FormatTooNew",
    "Gap",
    "InvalidArgument",
    "JsonPage",
    "Log",
    "LogFailed",
    "Overloaded",
    "Page",
    "PenstockError",
    "Record",
    "RecordTooLarge",
    "Removed",
    "Settings",
    "StorageError",
    "TopicConfig",
    "TopicExists",
    "TopicFull",
    "TopicInfo",
    "TopicNotFound",
    "UsageError",
    "open",
]
