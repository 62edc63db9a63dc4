"""What the OpenAPI document says of the table endpoints."""

from __future__ import annotations

from typing import Final

from penstock.schema_types import TopicName
from penstock.server.openapi_operations import EVENTS, Answer, Operation
from penstock.server.openapi_operations import _flag as flag
from penstock.server.openapi_operations import _name as name
from penstock.server.openapi_operations import _ok as ok
from penstock.server.openapi_operations import _parameter as parameter
from penstock.server.openapi_operations import _put as put
from penstock.server.openapi_operations import _query as query
from penstock.server.openapi_schemas import Schema, schema_of
from penstock.wire import tables

_EVENTUAL: Final = flag(
    "eventual", "false", "Take what the table has now, without folding the newest records first."
)
_TYPES: Final = ["text", "int", "bool"]
_CURSOR: Final = query("cursor", "The `next_cursor` of the previous page.")
_READING: Final = ("table_not_found", "table_failed", "table_not_ready")

TABLE_PARAMETERS: Final[dict[str, Schema]] = {
    "table": name("table", "Name of a table.", schema_of(TopicName)),
    "key": name("key", "A key, as text.", {"type": "string", "minLength": 1}),
}

TABLE_OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("GET", "/v0/tables"): Operation(
        "listTables",
        "List tables. Sorted by name. A key with prefixes sees the tables whose name and topic it "
        "may use.",
        ok(tables.TableListAnswer),
        parameters=(
            query("prefix", "Only names that start with this."),
            query("page_size", "1 to 1,000.", default="100"),
            _CURSOR,
        ),
        links={"listTables": {"query.cursor": "next_cursor"}},
    ),
    ("PUT", "/v0/tables/:table"): Operation(
        "putTable",
        "Create or change a table. The table has the newest record of each key of a topic, which "
        "need not exist yet. A record sets the row of its key, and deletes it when its data is "
        'null or its meta has `"deleted": true`.',
        put(tables.TablePutAnswer),
        ("table_exists", "storage_failed"),
        body=tables.TableBody,
        links={"getTable": {}, "listRows": {}, "dropTable": {}},
    ),
    ("GET", "/v0/tables/:table"): Operation(
        "getTable",
        "Get a table. How far it has read its topic, and what happened since the start.",
        ok(tables.TableAnswer),
        ("table_not_found",),
        links={"listRows": {}, "dropTable": {}},
    ),
    ("DELETE", "/v0/tables/:table"): Operation(
        "dropTable",
        "Delete a table. Its topic stays. A table that does not exist is not an error.",
        ok(tables.TableDeletedAnswer),
        ("storage_failed",),
        parameters=(
            name(
                "table",
                "Any name: no table exists under an invalid one.",
                {"type": "string", "minLength": 1},
            ),
        ),
    ),
    ("POST", "/v0/tables/:table/rebuild"): Operation(
        "rebuildTable",
        "Rebuild a table. Reads its topic again from the beginning, also after a failure. A body "
        "is ignored.",
        ok(tables.TableAnswer),
        ("table_not_found",),
    ),
    ("GET", "/v0/tables/:table/rows"): Operation(
        "listRows",
        "Read rows. In the order of their keys: false, true, numbers, texts. They contain every "
        "record that was appended before the call.",
        ok(tables.TableRowsAnswer),
        _READING,
        parameters=(
            query("prefix", "Only keys that are texts and begin with this."),
            query("after", "Only rows past this key: the `next_after` of the previous page."),
            query("after_type", "The type of `after`.", enum=_TYPES, default="text"),
            query("limit", "1 to 10,000.", default="256"),
            _EVENTUAL,
        ),
    ),
    ("GET", "/v0/tables/:table/rows/:key"): Operation(
        "getRow",
        "Read a row. It contains every record that was appended before the call.",
        ok(tables.TableRowAnswer),
        (*_READING, "row_not_found"),
        parameters=(
            query("key_type", "The type of the key.", enum=_TYPES, default="text"),
            _EVENTUAL,
        ),
    ),
    ("GET", "/v0/tables/:table/watch"): Operation(
        "watchTable",
        "Stream the changes of a table. Those after an offset, then each new one. Without an "
        "offset from now on. The stream ends with an event `error` of code `table_reset` when "
        "the rows must be read again.",
        {
            200: Answer(
                "The events. `id` is the place to resume from.", {EVENTS: {"type": "string"}}
            )
        },
        ("table_not_found", "not_acceptable"),
        parameters=(
            query("epoch", "The epoch of the offset."),
            query("seq", "The seq of the offset."),
            parameter(
                "header",
                "Last-Event-ID",
                "The last `id` that the client received; instead of an offset.",
            ),
        ),
        more={
            "x-penstock-events": {
                "change": tables.TableChangeEvent,
                "tombstone": tables.TableGapEvent,
                "error": tables.TableEndEvent,
            }
        },
    ),
}
