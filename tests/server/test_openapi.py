"""`/v0/openapi.json` is valid, describes the route table and nothing else, and is true of streams.

That it is true of requests and answers is tried in `test_schemathesis.py`.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import schemathesis

import penstock.server
from penstock.server.openapi_errors import FAULTS, SOCKET_FAULTS, STREAM_FAULTS
from tests.docs.pages import page
from tests.server.conftest import Start
from tests.server.routes import routes
from tests.server.support import Api, api_of, compact

PACKAGE = Path(penstock.server.__file__).parents[1]
SOURCES = sorted(
    path
    for name in ("server", "compat")
    for path in (PACKAGE / name).rglob("*.py")
    if path.parent.name != "beava"  # whose ports are its own, with codes of their own
)
KNOWN = {(fault.status, fault.code) for fault in (*FAULTS, *SOCKET_FAULTS, *STREAM_FAULTS)}


def codes_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every (status, code) that stands side by side in a source, in a call or in a table."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call):
            parts = node.args
        elif isinstance(node, ast.Tuple):
            parts = node.elts
        values = [part.value if isinstance(part, ast.Constant) else None for part in parts]
        for status, code in itertools.pairwise(values):
            is_status = type(status) is int and 400 <= status < 600
            if is_status and isinstance(code, str) and re.fullmatch("[a-z_]+", code):
                yield status, code


@pytest.fixture
def document(api: Api) -> dict[str, Any]:
    return dict(api.get("/v0/openapi.json").json)


def validator(document: dict[str, Any], schema: dict[str, Any]) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({"components": document["components"], **schema})


def operation(document: dict[str, Any], wanted: str) -> dict[str, Any]:
    operations = [one for path in document["paths"].values() for one in path.values()]
    (found,) = (one for one in operations if one["operationId"] == wanted)
    return dict(found)


# The document.


def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    schema = schemathesis.openapi.from_dict(document)

    schema.validate()

    assert document["openapi"] == "3.1.0"


def test_a_document_that_is_not_valid_is_found_out(document: dict[str, Any]) -> None:
    document["paths"]["/v0/topics"]["get"]["responses"] = []

    with pytest.raises(jsonschema_rs.ValidationError):
        schemathesis.openapi.from_dict(document).validate()


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for reference in set(re.findall(r'"\$ref":"#/([^"]+)"', compact(document))):
        found: Any = document
        for part in reference.split("/"):
            found = found[part]
        assert found


def test_every_route_is_described_and_nothing_else(document: dict[str, Any]) -> None:
    described = {
        (method.upper(), re.sub(r"{(\w+)}", r":\1", path))
        for path, operations in document["paths"].items()
        for method in operations
    }

    assert described == {(route.method, route.template) for route in routes()}


def test_every_query_parameter_that_is_looked_at_is_described(document: dict[str, Any]) -> None:
    sources = "".join(path.read_text() for path in SOURCES)
    asked = set(re.findall(r'request\.(?:query|flag|number)\("(\w+)"', sources))
    operations = [one for path in document["paths"].values() for one in path.values()]
    described = {
        parameter["name"]
        for one in operations
        for parameter in one.get("parameters", ())
        if parameter["in"] == "query"
    }
    keys = {
        one["name"] for one in document["components"]["securitySchemes"].values() if "in" in one
    }

    assert asked == described | keys


def test_it_needs_no_key_and_no_recovery(start: Start) -> None:
    server = start(PENSTOCK_API_KEYS="secret")
    (route,) = (route for route in routes() if route.template == "/v0/openapi.json")

    assert api_of(server).get("/v0/openapi.json").status == 200
    assert route.is_open
    assert route.is_early


def test_it_is_the_same_every_time(api: Api) -> None:
    first = api.get("/v0/openapi.json")

    assert api.get("/v0/openapi.json").body == first.body
    assert first.headers["content-type"] == "application/json"


# Error codes.


def test_every_code_in_the_sources_is_in_the_catalogue_under_its_status() -> None:
    found = {pair for path in SOURCES for pair in codes_in(ast.parse(path.read_text()))}

    assert len(found) > 20
    assert found <= KNOWN, f"describe them in openapi_errors.py: {sorted(found - KNOWN)}"


@pytest.mark.parametrize("code", sorted({code for _, code in KNOWN}))
def test_every_code_in_the_catalogue_is_in_the_sources(code: str) -> None:
    others = [path for path in SOURCES if not path.name.startswith("openapi")]

    assert any(f'"{code}"' in path.read_text() for path in others), "nobody says this any more"


@pytest.mark.parametrize(("status", "code"), sorted({(f.status, f.code) for f in FAULTS}))
def test_every_code_is_in_the_document_and_on_the_page(
    document: dict[str, Any], status: int, code: str
) -> None:
    rows = [line for line in page("docs/api/http.md").splitlines() if line.startswith("|")]

    assert (
        code
        in document["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["code"][
            "enum"
        ]
    )
    assert f"Error.{code}" in document["components"]["schemas"]
    assert any(f"| {status} | `{code}` |" in row for row in rows)


# Streams: every event and message that can be made to come has the shape it is said to have.


def test_events_have_the_shapes_that_are_described(
    api: Api, topic: str, document: dict[str, Any]
) -> None:
    shapes = operation(document, "stream")["x-penstock-events"]
    api.create(topic, cap_records=2)
    api.write(topic, 1, 2, 3)

    seen = set()
    with api.follow([topic]) as stream:
        for wanted in ("tombstone", "record", "caught-up"):
            event = stream.until(wanted)[-1]
            validator(document, shapes[wanted]).validate(event.json)
            seen.add(wanted)
        api.drop(topic)
        event = stream.until("topic-deleted")[-1]
        validator(document, shapes["topic-deleted"]).validate(event.json)

    assert seen | {"topic-deleted", "error"} == set(shapes)


def test_an_error_that_ends_a_stream_has_its_shape(
    api: Api, topic: str, document: dict[str, Any]
) -> None:
    shapes = operation(document, "stream")["x-penstock-events"]
    api.create(topic)
    wid = api.watch([topic])["wid"]

    with api.stream(wid) as older, api.stream(wid):
        data = older.until("error")[-1].json

    validator(document, shapes["error"]).validate(data)
    assert data["code"] in {fault.code for fault in STREAM_FAULTS}


def test_messages_have_the_shapes_that_are_described(
    api: Api, topic: str, document: dict[str, Any]
) -> None:
    shapes = operation(document, "socket")["x-penstock-messages"]
    api.create(topic, cap_records=2)
    api.write(topic, 1, 2, 3)
    found: dict[str, Any] = {}

    with api.socket() as socket:
        found["pong"] = socket.ask("ping")
        found["ack"] = socket.ask("publish", topic=topic, records=[{"data": 1}])
        found["subscribed"] = socket.ask("subscribe", topic=topic)
        for op in ("tombstone", "record", "caught_up"):
            found[op] = socket.one(op)
        found["unsubscribed"] = socket.ask("unsubscribe", topic=topic)
        found["error"] = socket.ask("subscribe", topic=f"{topic}-absent")
        socket.ask("subscribe", topic=topic)
        api.drop(topic)
        found["topic_deleted"] = socket.one("topic_deleted")

    for op, message in found.items():
        validator(document, shapes[op]).validate(message)
    assert set(found) == set(shapes)
    suppressed = {**found["ack"], "seqs": None}
    validator(document, shapes["ack"]).validate(suppressed)


@pytest.mark.parametrize("more", [{}, {"return_seqs": False}], ids=str)
def test_the_ack_of_delayed_records_has_the_members_that_are_described_and_no_others(
    api: Api, topic: str, document: dict[str, Any], more: dict[str, Any]
) -> None:
    shape = operation(document, "socket")["x-penstock-messages"]["ack"]
    with api.socket() as socket:
        ack = socket.ask("publish", topic=topic, records=[{"data": 1}], delay_ms=3_600_000, **more)

    validator(document, shape).validate(ack)
    assert set(ack) <= set(document["components"]["schemas"]["AckMessage"]["properties"])
    assert ack["delayed_id"] > 0
    assert ack.get("seqs") is None


def test_a_command_that_works_fits_its_description(document: dict[str, Any]) -> None:
    commands = operation(document, "socket")["x-penstock-commands"]

    assert set(commands) == {"subscribe", "unsubscribe", "publish", "ping"}
    validator(document, commands["publish"]).validate({"topic": "t", "records": [{"data": 1}]})
    validator(document, commands["subscribe"]).validate({"topics": {"t": {"tail": True}}})
    validator(document, commands["unsubscribe"]).validate({"topics": ["t"]})
