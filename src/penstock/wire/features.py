"""Bodies and answers of the feature endpoints, as declared models. Unknown fields are ignored."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock import limits
from penstock.feature_types import (
    FeatureError,
    FeatureKeyRow,
    FeaturePlace,
    FeatureTableState,
    FeatureTableStatus,
    PushSync,
)
from penstock.types import Offset
from penstock.wire.answers import Performance
from penstock.wire.models import NonNegative

READS_MAX: Final = 10_000  # of one request
WAIT_MS_MAX: Final = 30_000

Key = Annotated[
    Any,
    Meta(
        description=(
            "The value of the key column; an array of values for several columns, in their order; "
            "absent or null for a table without a key."
        ),
        extra_json_schema={
            "anyOf": [
                {"type": ["string", "integer", "boolean", "null"]},
                {"type": "array", "items": {"type": ["string", "integer", "boolean"]}},
            ]
        },
    ),
]
Row = Annotated[dict[str, Any], Meta(description="The value of each feature; null: none yet.")]
Nodes = Annotated[list[dict[str, Any]], Meta(description="See docs/features/definition.md.")]


class FeatureDefinitionBody(msgspec.Struct, kw_only=True):
    """Nodes of a definition. Without `whole`, nodes that are not named stay as they are."""

    events: Nodes = []
    derived: Nodes = []
    tables: Nodes = []
    dry_run: Annotated[bool, Meta(description="Answer with the changes, and make none.")] = False
    force: Annotated[bool, Meta(description="Permit changes that lose state.")] = False
    whole: Annotated[bool, Meta(description="Remove the nodes that are not named.")] = False
    wait_ms: NonNegative = 0

    @property
    def document(self) -> dict[str, Any]:
        return {"events": self.events, "derived": self.derived, "tables": self.tables}


class FeatureGetBody(msgspec.Struct, kw_only=True):
    """One row: of a key, now or as of an earlier place in the topic."""

    table: str
    key: Key = None
    features: list[str] | None = None
    as_of_seq: NonNegative | None = None
    as_of_ts: NonNegative | None = None
    eventual: bool = False


class FeatureReadBody(msgspec.Struct, kw_only=True):
    """One read of several."""

    table: str
    key: Key = None
    features: list[str] | None = None


class FeatureBatchGetBody(msgspec.Struct, kw_only=True):
    """Several reads, as of one time."""

    requests: Annotated[list[FeatureReadBody], Meta(extra_json_schema={"maxItems": READS_MAX})]
    eventual: bool = False


class FeaturePushGetBody(msgspec.Struct, kw_only=True):
    """Events to push, then rows to read, which contain them."""

    event: str
    data: Annotated[
        msgspec.Raw,
        Meta(
            description="One event or an array of events.",
            extra_json_schema={"anyOf": [{"type": "object"}, {"type": "array"}]},
        ),
    ]
    reads: Annotated[list[FeatureReadBody], Meta(extra_json_schema={"maxItems": READS_MAX})] = []
    sync: PushSync | None = None


class FeatureScanBody(msgspec.Struct, kw_only=True):
    """A page of the rows of a table."""

    table: str
    after: Annotated[NonNegative, Meta(description="The `next_after` of the page before.")] = 0
    limit: Annotated[int, Meta(ge=1, le=limits.FEATURE_SCAN_MAX)] = 1000
    features: list[str] | None = None
    now_ms: Annotated[
        NonNegative | None, Meta(description="The time of the read, ms since 1970. [now]")
    ] = None


class FeatureLoadBody(msgspec.Struct, kw_only=True):
    """A snapshot to be loaded."""

    table: str
    folder: Annotated[
        str, Meta(min_length=1, description="Its folder, as an absolute path of the server.")
    ]


class FeatureScanAnswer(msgspec.Struct, kw_only=True):
    """Rows with their keys, and how far the topic was folded into their features."""

    table: str
    rows: list[FeatureKeyRow]
    places: list[FeaturePlace]
    now_ms: int
    next_after: int | None
    performance: Performance


class FeatureLoadAnswer(msgspec.Struct, kw_only=True):
    """What took over the snapshot. `applied` has what came after it, too."""

    table: str
    parts: list[str]
    snapshot: Offset
    applied: Offset
    keys: int
    saved: bool
    performance: Performance


class FeatureDefinitionAnswer(msgspec.Struct, kw_only=True):
    """What is registered."""

    version: int
    events: list[dict[str, Any]]
    derived: list[dict[str, Any]]
    tables: list[dict[str, Any]]
    performance: Performance


class FeatureRegisterAnswer(msgspec.Struct, kw_only=True):
    """What a registration changed, or with `dry_run` would change."""

    version: int
    changed: bool
    dry_run: bool
    changes: list[dict[str, Any]]
    tables: dict[str, FeatureTableState]
    performance: Performance


class FeaturePushAnswer(msgspec.Struct, kw_only=True):
    """Events were appended. `deduped` counts the events that were in the log already."""

    event: str
    topic: str
    first_seq: int
    last_seq: int
    count: int
    deduped: int
    ts: int
    version: int
    performance: Performance


class FeatureRowAnswer(msgspec.Struct, kw_only=True):
    """A row; empty for a key without events."""

    table: str
    row: Row
    performance: Performance


class FeatureResult(msgspec.Struct, kw_only=True):
    """The row of one read, or why there is none."""

    row: Row | UnsetType = UNSET
    error: FeatureError | UnsetType = UNSET


class FeatureBatchAnswer(msgspec.Struct, kw_only=True):
    """One result for each read, in their order."""

    results: list[FeatureResult]
    performance: Performance


class FeaturePushGetAnswer(msgspec.Struct, kw_only=True):
    """What was pushed, and one result for each read."""

    pushed: FeaturePushAnswer
    results: list[FeatureResult]
    performance: Performance


class FeatureTablesAnswer(msgspec.Struct, kw_only=True):
    """All feature tables, sorted by name."""

    version: int
    tables: list[FeatureTableStatus]
    performance: Performance


class FeatureTableAnswer(msgspec.Struct, kw_only=True):
    """One feature table: its parts, positions and watermarks."""

    table: FeatureTableStatus
    performance: Performance
