"""Bodies, answers and events of the table endpoints, as declared models."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock.projection_types import GapPolicy, ProjectionStatus
from penstock.schema_types import U64, TopicName
from penstock.types import Offset
from penstock.wire.answers import Performance

Key = Annotated[
    Any,
    Meta(
        description="A key: text, a whole number of 64 bits, or true or false.",
        extra_json_schema={"type": ["string", "integer", "boolean"]},
    ),
]
PositiveBytes = Annotated[int, Meta(ge=1)]


class TableBody(msgspec.Struct, kw_only=True):
    """`PUT /v0/tables/:table`. `topic` is the name of the table when absent. Of an existing table
    `on_gap` and `bytes_max` can be changed; what is absent stays as it is."""

    key: Annotated[
        str,
        Meta(
            description="A field of the data, `tag` or `node`; `data.tag` is a field.",
            min_length=1,
        ),
    ]
    topic: TopicName | None = None
    on_gap: GapPolicy | None = None
    bytes_max: PositiveBytes | None = None


class TableView(msgspec.Struct, kw_only=True):
    """A table and its state. `skipped` counts records without a usable key."""

    table: str
    topic: str
    key: str
    on_gap: GapPolicy
    bytes_max: U64
    rows: U64
    skipped: U64
    progress: ProjectionStatus


class TableAnswer(TableView, kw_only=True):
    """A table and its state."""

    performance: Performance


class TablePutAnswer(TableView, kw_only=True):
    """A table was created, or its options were changed."""

    created: bool
    performance: Performance


class TableListAnswer(msgspec.Struct, kw_only=True):
    """A page of tables. `next_cursor` is present when more tables follow."""

    tables: list[TableView]
    next_cursor: str | UnsetType = UNSET
    performance: Performance


class TableDeletedAnswer(msgspec.Struct, kw_only=True):
    """The table does not exist any more; `deleted` says whether it existed."""

    table: str
    deleted: bool
    performance: Performance


class TableRowView(msgspec.Struct, kw_only=True):
    """The newest record of a key."""

    key: Key
    value: Any
    seq: U64
    ts: U64


class TableRowAnswer(TableRowView, kw_only=True):
    """The row of a key."""

    performance: Performance


class TableRowsAnswer(msgspec.Struct, kw_only=True):
    """Rows in the order of their keys. `next_after` is present when more rows follow. `count` is
    the number of rows of the table. `offset` is what it contained: a watch from there misses
    nothing."""

    rows: list[TableRowView]
    count: U64
    next_after: Key | UnsetType = UNSET
    offset: Offset | None
    performance: Performance


class TableChangeEvent(msgspec.Struct, kw_only=True):
    """One record, as a change of the table. A deleted row has no value."""

    key: Key
    value: Any
    is_deleted: bool
    seq: U64
    ts: U64


class TableGapEvent(msgspec.Struct, kw_only=True):
    """Seqs that were lost: changes may be missing."""

    first: U64
    last: U64
    reason: str


class TableEndEvent(msgspec.Struct, kw_only=True):
    """The stream ends: the table or its topic was deleted, or the topic was created again. Read
    the rows again."""

    code: str
    message: str
