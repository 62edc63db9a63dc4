"""Paths find their handlers, and every wrong one its error."""

from __future__ import annotations

import pytest

from penstock.server.errors import ApiError
from penstock.server.http.message import Request, Response
from penstock.server.http.routes import PendingAnswer, Route, Routes


def handler(request: Request) -> Response:
    return Response(200, b"")


ROUTES = Routes(
    [
        Route("GET", "/v0/topics", handler),
        Route("GET", "/v0/topics/:topic", handler),
        Route("POST", "/v0/topics/:topic", handler),
        Route("PUT", "/v0/topics/:topic/positions/:name", handler),
    ]
)


@pytest.mark.parametrize(
    ("path", "template", "params"),
    [
        ("/v0/topics", "/v0/topics", ()),
        ("/v0/topics/orders", "/v0/topics/:topic", ("orders",)),
        ("/v0/topics/a%2Fb", "/v0/topics/:topic", ("a/b",)),
        ("/v0/topics/jobs-%3Eaudit", "/v0/topics/:topic", ("jobs->audit",)),
        ("/v0/topics/topics", "/v0/topics/:topic", ("topics",)),
    ],
)
def test_a_path_leads_to_its_template_with_decoded_names(
    path: str, template: str, params: tuple[str, ...]
) -> None:
    route, found = ROUTES.find("GET", path)

    assert (route.template, found) == (template, params)


def test_two_parameters_keep_their_order() -> None:
    _, params = ROUTES.find("PUT", "/v0/topics/t/positions/p")

    assert params == ("t", "p")


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/v0",
        "/v0/",
        "/v0/topics/",
        "/v0/topics//",
        "/v0/topics/a/b",
        "/v1/topics/a",
        "/v0/topics/a/positions",
        "/v0/topics/%FF",
        "//v0/topics",
        "/v0/topics/a/positions/b/c",
    ],
)
def test_any_other_path_is_not_found(path: str) -> None:
    with pytest.raises(ApiError) as caught:
        ROUTES.find("GET", path)

    assert (caught.value.status, caught.value.code) == (404, "not_found")


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "get", ""])
def test_another_method_on_a_known_path_is_not_allowed(method: str) -> None:
    with pytest.raises(ApiError) as caught:
        ROUTES.find(method, "/v0/topics/orders")

    assert (caught.value.status, caught.value.code) == (405, "method_not_allowed")


def test_a_pending_answer_is_rendered_or_is_the_error() -> None:
    answered: list[object] = []
    bug = ZeroDivisionError()

    def render(outcome: int) -> Response:
        if not outcome:
            raise bug
        return Response(200, b"%d" % outcome)

    def resolve(outcome: object) -> None:
        pending = PendingAnswer(render)
        pending.answered = answered.append
        pending.resolve(outcome)

    error = ApiError(404, "not_found", "there is none")
    for outcome in (7, error, 0):
        resolve(outcome)

    assert answered == [Response(200, b"7"), error, bug]
