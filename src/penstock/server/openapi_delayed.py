"""What the OpenAPI document says of the endpoints of delayed records."""

from __future__ import annotations

from typing import Final

from penstock.schema_types import U64
from penstock.server.openapi_operations import Operation
from penstock.server.openapi_operations import _name as name
from penstock.server.openapi_operations import _ok as ok
from penstock.server.openapi_operations import _query as query
from penstock.server.openapi_schemas import Schema, schema_of
from penstock.wire import answers

DELAYED_PARAMETERS: Final[dict[str, Schema]] = {
    "delayed_id": name("delayed_id", "The `delayed_id` of a delayed append.", schema_of(U64)),
}

DELAYED_OPERATIONS: Final[dict[tuple[str, str], Operation]] = {
    ("GET", "/v0/topics/:topic/delayed"): Operation(
        "listDelayed",
        "List delayed records. The appends with `deliver_at` or `delay_ms` whose time has not "
        "come, by id. Jobs of a queue are not among them: they are records of their topic.",
        ok(answers.DelayedListAnswer),
        ("topic_not_found",),
        parameters=(
            query("after", "Only ids above this one.", default="0"),
            query("limit", "1 to 1000.", default="100"),
        ),
        links={"listDelayed": {"query.after": "next_after"}},
    ),
    ("DELETE", "/v0/topics/:topic/delayed/:delayed_id"): Operation(
        "cancelDelayed",
        "Cancel a delayed append. Its records never become visible. Durable before the answer. A "
        "batch that was delivered, is being delivered or was cancelled before is an error.",
        ok(answers.DelayedCancelledAnswer),
        ("topic_not_found", "delayed_not_found", "already_delivered", "storage_failed"),
        links={"listDelayed": {}},
    ),
}
