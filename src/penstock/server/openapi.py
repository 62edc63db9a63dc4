"""`GET /v0/openapi.json`: the route table as an OpenAPI 3.1 document.

Paths, methods and scopes come from the table itself, request bodies from the structs that decode
them. What is written by hand stands beside, one file each for operations, answers and errors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from penstock.server import openapi_errors, openapi_schemas
from penstock.server.auth import Scope
from penstock.server.http.routes import Route
from penstock.server.openapi_operations import OPERATIONS, PARAMETERS, Good, Operation
from penstock.server.openapi_schemas import Schema

_encode = msgspec.json.Encoder().encode

_ABOUT: Final = """Topics of records over HTTP, server-sent events and WebSocket.

Times and durations are whole milliseconds, seqs are integers from 0 to 2^64-1. Unknown members of a
request are ignored. An answer may get new members in later versions; those that are there stay.
Every answer other than 2xx is an `Error`, whose `code` is for programs and whose `message` is for
people. With keys, a call needs `Authorization: Bearer <key>` and the scope that stands beside it.

Wrong method on a known path: 405 `method_not_allowed`. Unknown path: 404 `not_found`.
docs/api/http.md says all of this at length.
"""

_SECURITY: Final[Schema] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of PENSTOCK_API_KEYS. Without keys configured none is needed.",
    },
    "ticket": {
        "type": "apiKey",
        "in": "query",
        "name": "ticket",
        "description": "A ticket of `POST /v0/tickets`: once, within 30 seconds.",
    },
    "token": {
        "type": "apiKey",
        "in": "query",
        "name": "token",
        "description": "The key itself. Addresses end up in logs: prefer a ticket.",
    },
}


def encoded(routes: Iterable[Route], version: str) -> bytes:
    """The document as it is sent."""
    return _encode(document(routes, version))


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The document as a value. A route that nobody described is a mistake of ours."""
    paths: dict[str, dict[str, Any]] = {}
    responses: dict[str, Schema] = {}
    for route in routes:
        operation = OPERATIONS.get((route.method, route.template))
        if operation is None:
            raise AssertionError(f"{route.method} {route.template} is not described")
        path, names = _path(route.template)
        paths.setdefault(path, {})[route.method.lower()] = _operation(
            route, operation, names, responses
        )
    _drop_dead_links(paths)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock",
            "version": version,
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {**openapi_schemas.components(), **openapi_errors.schemas()},
            "responses": dict(sorted(responses.items())),
            "securitySchemes": _SECURITY,
        },
    }


def _path(template: str) -> tuple[str, list[str]]:
    """(the path as OpenAPI spells it, the names of its parameters)"""
    parts = template.split("/")
    names = [part[1:] for part in parts if part.startswith(":")]
    return "/".join(f"{{{p[1:]}}}" if p.startswith(":") else p for p in parts), names


def _operation(
    route: Route, operation: Operation, names: list[str], responses: dict[str, Schema]
) -> Schema:
    """The operation itself; what it shares with others goes to `responses`."""
    scope = scope_words(route)
    made: Schema = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": f"{operation.about}\n\nScope: {scope}.",
        "x-penstock-scope": scope,
        "security": _security(route),
    }
    own = {one["name"] for one in operation.parameters}
    parameters = [PARAMETERS[name] for name in names if name not in own]
    parameters += operation.parameters
    if parameters:
        made["parameters"] = parameters
    if operation.body is not None:
        content = {kind: {"schema": schema} for kind, schema in operation.body.bodies.items()}
        made["requestBody"] = {"required": operation.body.is_required, "content": content}
    made["responses"] = _responses(operation, responses)
    return {**made, **dict(operation.more)}


def scope_words(route: Route) -> str:
    """The scopes a key needs for a route, as words."""
    if route.is_open:
        return "none, checked by the session's key" if route.is_stream else "none, no key needed"
    named = [one.name.lower() for one in Scope if one in route.scope and one.name is not None]
    return " and ".join(named) or "any key"


def _security(route: Route) -> list[dict[str, list[str]]]:
    scopes = [one.name.lower() for one in Scope if one in route.scope and one.name is not None]
    ways: list[dict[str, list[str]]] = [{"bearer": scopes}]
    if route.is_stream:
        ways.append({"ticket": []})
        if route.is_open:
            ways.append({"token": []})
    if route.is_open:
        ways.append({})
    return ways


def _responses(operation: Operation, shared: dict[str, Schema]) -> Schema:
    links = {
        f"{name}{number}": _link(name, parameters, body)
        for number, (name, parameters, body) in enumerate(operation.links)
    }
    made: Schema = {}
    for status, faults in openapi_errors.answers(operation.faults).items():
        name = openapi_errors.answer_name(faults)
        shared[name] = openapi_errors.answer(faults)
        made[str(status)] = {"$ref": f"#/components/responses/{name}"}
    for status, good in operation.good.items():
        made[str(status)] = _good(good, links if status < 300 else {})
    return dict(sorted(made.items()))


def _good(good: Good, links: Schema) -> Schema:
    made: Schema = {"description": good.about}
    if good.bodies:
        made["content"] = {kind: {"schema": schema} for kind, schema in good.bodies.items()}
    if links:
        made["links"] = links
    return made


def _link(name: str, parameters: dict[str, str], body: dict[str, str] | None) -> Schema:
    made: Schema = {"operationId": name, "parameters": parameters}
    if body is not None:
        made["requestBody"] = body
    return made


def _drop_dead_links(paths: dict[str, dict[str, Any]]) -> None:
    """Links to operations that this table does not have."""
    operations = [one for path in paths.values() for one in path.values()]
    known = {one["operationId"] for one in operations}
    for one in operations:
        for answer in one["responses"].values():
            links = answer.get("links", {})
            for name in [key for key, link in links.items() if link["operationId"] not in known]:
                del links[name]
