"""What the OpenAPI document says of the feature endpoints."""

from __future__ import annotations

from typing import Final

from penstock.server.openapi_operations import EVENTS, Answer, Operation
from penstock.server.openapi_operations import _name as name
from penstock.server.openapi_operations import _ok as ok
from penstock.server.openapi_operations import _query as query
from penstock.server.openapi_schemas import Schema
from penstock.wire import features

_NAME: Final[Schema] = {"type": "string", "minLength": 1}
_EVENTS: Final[Schema] = {
    "description": "An event, with a member for each field of its type, or an array of events.",
    "anyOf": [
        {"type": "object"},
        {"type": "array", "minItems": 1, "items": {"type": "object"}},
    ],
}
_READING: Final = ("table_not_found", "table_failed", "table_not_ready")
_PUSHING: Final = ("record_too_large", "batch_too_large", "topic_full", "storage_failed")

FEATURE_PARAMETERS: Final[dict[str, Schema]] = {
    "feature_table": name("feature_table", "Name of a feature table.", _NAME),
    "event": name("event", "Name of an event type.", _NAME),
}

FEATURE_OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("POST", "/v0/features/definition"): Operation(
        "registerFeatures",
        "Register events and feature tables. Nodes are added, or replace those of the same name; "
        "with `whole`, nodes that are not named are removed. A change that loses state needs "
        "`force`. New and changed features are built from the records of their topics in the "
        "background, for which the answer waits up to `wait_ms`. `dry_run` changes nothing.",
        ok(features.FeatureRegisterAnswer),
        ("force_required", "storage_failed"),
        body=features.FeatureDefinitionBody,
    ),
    ("GET", "/v0/features/definition"): Operation(
        "getFeatureDefinition",
        "Get what is registered. The events, derived events and tables, and the number of "
        "registrations that changed something.",
        ok(features.FeatureDefinitionAnswer),
    ),
    ("GET", "/v0/features/tables"): Operation(
        "listFeatureTables",
        "List feature tables. Their parts, how far each has read its topic, and the watermarks of "
        "its events. A key with prefixes sees the tables of topics that it may use.",
        ok(features.FeatureTablesAnswer),
    ),
    ("GET", "/v0/features/tables/:feature_table"): Operation(
        "getFeatureTable",
        "Get a feature table. Its parts, how far each has read the topic, and the watermarks.",
        ok(features.FeatureTableAnswer),
        ("table_not_found",),
    ),
    ("POST", "/v0/features/push/:event"): Operation(
        "pushEvents",
        "Push events. The body is one event or an array of events, each a JSON object that fits "
        "the schema. All are appended to the event's topic, or none. Events whose id is within "
        "the dedupe window are left out and counted in `deduped`.",
        ok(features.FeaturePushAnswer),
        _PUSHING,
        parameters=(
            query(
                "sync",
                "`per_event`: answer after the sync. By default as the event declares it.",
                enum=["periodic", "per_event"],
            ),
        ),
        body=_EVENTS,
    ),
    ("POST", "/v0/features/push_get"): Operation(
        "pushAndGet",
        "Push events and read rows. The rows contain the pushed events.",
        ok(features.FeaturePushGetAnswer),
        _PUSHING,
        body=features.FeaturePushGetBody,
    ),
    ("POST", "/v0/features/get"): Operation(
        "getFeatures",
        "Get the features of a key. The row contains every event committed before the call, unless "
        "`eventual` is true. `as_of_seq` and `as_of_ts` give the row as it was; the topic is then "
        "folded again up to there, and must have all its records before that place.",
        ok(features.FeatureRowAnswer),
        (*_READING, "history_gone"),
        body=features.FeatureGetBody,
    ),
    ("POST", "/v0/features/batch_get"): Operation(
        "batchGetFeatures",
        "Get several rows as of one time. A read that fails has an error in the place of its row.",
        ok(features.FeatureBatchAnswer),
        _READING,
        body=features.FeatureBatchGetBody,
    ),
    ("POST", "/v0/features/scan"): Operation(
        "scanFeatures",
        "Read many rows, a page at a time. `places` tells how far the topic was folded into their "
        "features. A key that is there from the first page to the last is in one page.",
        ok(features.FeatureScanAnswer),
        _READING,
        body=features.FeatureScanBody,
    ),
    ("POST", "/v0/features/load"): Operation(
        "loadFeatures",
        "Load a snapshot that Spark built. The folder is one that the server sees. What came after "
        "the snapshot is folded first, and the table is read as it was until then.",
        ok(features.FeatureLoadAnswer),
        (*_READING, "storage_failed"),
        body=features.FeatureLoadBody,
    ),
    ("GET", "/v0/features/watch/:feature_table"): Operation(
        "watchFeatures",
        "Watch the features of a key. An event `row` at once, and another after each commit that "
        "changes the row. What time alone changes shows with the next event.",
        {
            200: Answer(
                "Events `row` with the values of the features.", {EVENTS: {"type": "string"}}
            )
        },
        (*_READING, "not_acceptable"),
        parameters=(
            query("key", "The key: a text, or JSON for another type or several columns."),
            query("features", "Names of features, with commas between them. [all]"),
        ),
    ),
}
