"""Appends as every protocol passes them to the service: the batch, its options, the answer."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.engine.batch import Batch, from_columns, from_table
from penstock.types import Appended
from penstock.wire.models import WriteOptions

__all__ = [
    "CREATE_AND_WAIT",
    "Answer",
    "Batch",
    "TopicWrite",
    "batch_of_texts",
    "from_table",
    "is_plain",
]

Answer = Appended | Exception  # what an append comes to

# For callers whose protocol has no options.
CREATE_AND_WAIT = WriteOptions(disable_backpressure=True)


@dataclass(frozen=True, slots=True)
class TopicWrite:
    """One topic's part of a batch over several topics."""

    topic: str
    batch: Batch
    options: WriteOptions = CREATE_AND_WAIT


def batch_of_texts(texts: list[bytes], key: bytes = b"") -> Batch:
    """A batch of JSON texts that are known to be valid; their sizes are checked."""
    return from_columns(texts, None, None, None, key=key, are_valid=True)


def is_plain(batch: Batch) -> bool:
    """True if it has nothing but payloads, or records that stay in their text: then it may share a
    commit with others."""
    return not (
        batch.key
        or batch.metas is not None
        or batch.tags is not None
        or batch.nodes is not None
        or batch.tag is not None
        or batch.node is not None
        or batch.due_ms
    )
