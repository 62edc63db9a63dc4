"""The OpenAPI document: made from the route table, whole, and the same for whoever reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.server import openapi
from penstock.server.auth import Scope
from penstock.server.http.message import Request, Response
from penstock.server.http.routes import Route


def nobody(request: Request) -> Response:
    raise AssertionError("nothing is served here")


def route(method: str, template: str, scope: Scope = Scope.NONE, **more: bool) -> Route:
    return Route(method, template, nobody, scope, **more)


TOPIC = "/v0/topics/:topic"
POSITION = f"{TOPIC}/positions/:name"


def operation(one: Route) -> dict[str, Any]:
    document = openapi.document([one], "1.2.3")
    (path,) = document["paths"].values()
    return dict(path[one.method.lower()])


def test_a_route_becomes_a_path_with_its_parameters() -> None:
    document = openapi.document([route("GET", POSITION, Scope.READ)], "1.2.3")

    (path,) = document["paths"]
    parameters = document["paths"][path]["get"]["parameters"]

    assert path == "/v0/topics/{topic}/positions/{name}"
    assert [(one["name"], one["in"], one["required"]) for one in parameters] == [
        ("topic", "path", True),
        ("name", "path", True),
    ]
    assert document["info"]["version"] == "1.2.3"


def test_two_methods_of_a_path_stand_together() -> None:
    document = openapi.document([route("GET", TOPIC), route("PUT", TOPIC)], "1")

    assert list(document["paths"]["/v0/topics/{topic}"]) == ["get", "put"]


@pytest.mark.parametrize(
    ("one", "words", "ways"),
    [
        (route("GET", TOPIC, Scope.READ), "read", [{"bearer": ["read"]}]),
        (
            route("GET", TOPIC, Scope.READ | Scope.WRITE),
            "read and write",
            [{"bearer": ["read", "write"]}],
        ),
        (route("POST", "/v0/tickets"), "any key", [{"bearer": []}]),
        (
            route("GET", "/v0/ws", is_stream=True),
            "any key",
            [{"bearer": []}, {"ticket": []}],
        ),
        (
            route("GET", "/v0/watch/:wid", is_stream=True, is_open=True),
            "none, checked by the session's key",
            [{"bearer": []}, {"ticket": []}, {"token": []}, {}],
        ),
        (
            route("GET", "/v0/health", is_open=True),
            "none, no key needed",
            [{"bearer": []}, {}],
        ),
    ],
    ids=lambda value: getattr(value, "template", "-"),
)
def test_who_may_call_comes_from_the_route(
    one: Route, words: str, ways: list[dict[str, list[str]]]
) -> None:
    made = operation(one)

    assert made["x-penstock-scope"] == words
    assert made["description"].endswith(f"Scope: {words}.")
    assert made["security"] == ways


def test_a_route_that_nobody_described_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="GET /v0/unheard-of"):
        openapi.document([route("GET", "/v0/unheard-of")], "1")


def test_answers_that_routes_share_are_written_once() -> None:
    document = openapi.document([route("GET", TOPIC), route("PUT", TOPIC)], "1")

    answers = [one["responses"]["401"] for one in document["paths"]["/v0/topics/{topic}"].values()]

    assert answers == [{"$ref": "#/components/responses/401.unauthorized"}] * 2
    assert "401.unauthorized" in document["components"]["responses"]


def test_a_link_leads_to_a_route_of_the_table_or_is_left_out() -> None:
    alone = operation(route("PUT", TOPIC, Scope.ADMIN))
    document = openapi.document([route("PUT", TOPIC), route("GET", TOPIC)], "1")

    beside = document["paths"]["/v0/topics/{topic}"]["put"]["responses"]["201"]["links"]

    assert not alone["responses"]["201"]["links"]
    assert [one["operationId"] for one in beside.values()] == ["getTopic"]


def test_the_bytes_are_the_document() -> None:
    routes = [route("GET", TOPIC), route("GET", POSITION)]

    assert json.loads(openapi.encoded(routes, "1")) == openapi.document(routes, "1")
