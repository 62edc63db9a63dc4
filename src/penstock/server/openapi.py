"""`GET /v0/openapi.json`: the route table as an OpenAPI 3.1 document.

Paths, methods and scopes come from the table itself, bodies from the declared models. Descriptions
are in `openapi_operations.py`, error codes in `openapi_errors.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from penstock.server import openapi_errors
from penstock.server.http.routes import Route
from penstock.server.openapi_delayed import DELAYED_OPERATIONS, DELAYED_PARAMETERS
from penstock.server.openapi_features import FEATURE_OPERATIONS, FEATURE_PARAMETERS
from penstock.server.openapi_operations import (
    BATCH,
    BINARY,
    JSON,
    OPERATIONS,
    PARAMETERS,
    Answer,
    Operation,
)
from penstock.server.openapi_schemas import Model, Schema, components, ref
from penstock.server.openapi_tables import TABLE_OPERATIONS, TABLE_PARAMETERS

_encode = msgspec.json.Encoder().encode
_ALL: Final = OPERATIONS | DELAYED_OPERATIONS | TABLE_OPERATIONS | FEATURE_OPERATIONS
_NAMES: Final = PARAMETERS | DELAYED_PARAMETERS | TABLE_PARAMETERS | FEATURE_PARAMETERS

_ABOUT: Final = """Topics of records over HTTP, server-sent events and WebSocket.

Times and durations are whole milliseconds, seqs are integers from 0 to 2^64-1. Unknown members of a
request are ignored. Later versions may add members to an answer and remove none. Every answer other
than 2xx is an `Error`: `code` is for programs, `message` for people. With keys, a call needs
`Authorization: Bearer <key>` and the scope of its operation.

Wrong method on a known path: 405 `method_not_allowed`. Unknown path: 404 `not_found`.
docs/api/http.md has the details.
"""

_SECURITY: Final[Schema] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of PENSTOCK_API_KEYS. A server without keys needs none.",
    },
    "ticket": {
        "type": "apiKey",
        "in": "query",
        "name": "ticket",
        "description": "A ticket of `POST /v0/tickets`: valid once, for 30 seconds.",
    },
    "token": {
        "type": "apiKey",
        "in": "query",
        "name": "token",
        "description": "The key itself. URLs appear in logs: prefer a ticket.",
    },
}


def encoded(routes: Iterable[Route], version: str) -> bytes:
    """The document as it is sent."""
    return _encode(document(routes, version))


def document(routes: Iterable[Route], version: str) -> dict[str, Any]:
    """The document as a value. AssertionError for a route without an operation."""
    described = [(route, _operation_of(route)) for route in routes]
    targets = {operation.id: route.template for route, operation in described}
    paths: dict[str, dict[str, Any]] = {}
    responses: dict[str, Schema] = {}
    for route, operation in described:
        made = _operation(route, operation, targets, responses)
        paths.setdefault(_path(route.template), {})[route.method.lower()] = made
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
            "schemas": {**components(models()), **openapi_errors.schemas()},
            "responses": dict(sorted(responses.items())),
            "securitySchemes": _SECURITY,
        },
    }


def models() -> list[Model]:
    """Every model that an operation names."""
    found: list[Any] = []
    for operation in _ALL.values():
        found += [operation.body]
        found += [body for answer in operation.answers.values() for body in answer.bodies.values()]
        found += [body for named in operation.more.values() for body in named.values()]
    return list(dict.fromkeys([one for one in found if isinstance(one, type)]))


def _operation_of(route: Route) -> Operation:
    operation = _ALL.get((route.method, route.template))
    if operation is None:
        raise AssertionError(f"no operation describes {route.method} {route.template}")
    return operation


def _path(template: str) -> str:
    """The path as OpenAPI writes it: `{name}` for `:name`."""
    parts = template.split("/")
    return "/".join(f"{{{part[1:]}}}" if part.startswith(":") else part for part in parts)


def _names(template: str) -> list[str]:
    """The names of the path's parameters."""
    return [part[1:] for part in template.split("/") if part.startswith(":")]


def _operation(
    route: Route, operation: Operation, targets: dict[str, str], responses: dict[str, Schema]
) -> Schema:
    """The operation. Answers that operations share are added to `responses`."""
    scope = scope_words(route)
    made: Schema = {
        "operationId": operation.id,
        "summary": operation.summary,
        "description": f"{operation.description}\n\nScope: {scope}.",
        "x-penstock-scope": scope,
        "security": _security(route),
    }
    names = _names(route.template)
    own = {one["name"] for one in operation.parameters}
    parameters = [_NAMES[name] for name in names if name not in own]
    parameters += operation.parameters
    if parameters:
        made["parameters"] = parameters
    if operation.body is not None:
        bodies: dict[str, Model | Schema] = {JSON: operation.body}
        if operation.has_binary_body:
            bodies[BATCH] = BINARY
        made["requestBody"] = {
            "required": operation.is_body_required,
            "content": _content(bodies),
        }
    # Every path with a parameter has values that name no endpoint.
    faults = ("not_found", *operation.faults) if names else operation.faults
    made["responses"] = _responses(operation, faults, targets, responses)
    for name, bodies in operation.more.items():
        made[name] = {key: _schema(body) for key, body in bodies.items()}
    return made


def scope_words(route: Route) -> str:
    """The scopes that a key needs for a route, as words."""
    if route.is_open:
        return "none, checked by the session's key" if route.is_stream else "none, no key needed"
    return " and ".join(route.scope.words) or "any key"


def _security(route: Route) -> list[dict[str, list[str]]]:
    ways: list[dict[str, list[str]]] = [{"bearer": route.scope.words}]
    if route.is_stream:
        ways.append({"ticket": []})
        if route.is_open:
            ways.append({"token": []})
    if route.is_open:
        ways.append({})
    return ways


def _responses(
    operation: Operation,
    faults: tuple[str, ...],
    targets: dict[str, str],
    shared: dict[str, Schema],
) -> Schema:
    made: Schema = {}
    for status, codes in openapi_errors.answers(faults).items():
        name = openapi_errors.answer_name(codes)
        shared[name] = openapi_errors.answer(codes)
        made[str(status)] = {"$ref": f"#/components/responses/{name}"}
    for status, answer in operation.answers.items():
        response: Schema = {"description": answer.about}
        if answer.bodies:
            response["content"] = _content(answer.bodies)
        if operation.links and status < 300:
            response["links"] = _links(operation, answer, targets)
        made[str(status)] = response
    return dict(sorted(made.items()))


def _content(bodies: dict[str, Model | Schema]) -> Schema:
    return {kind: {"schema": _schema(body)} for kind, body in bodies.items()}


def _schema(body: Model | Schema) -> Schema:
    return body if isinstance(body, dict) else ref(body)


def _links(operation: Operation, answer: Answer, targets: dict[str, str]) -> Schema:
    """Links to the operations that this table has."""
    model = answer.bodies[JSON]
    members = () if isinstance(model, dict) else model.__struct_fields__
    made: Schema = {}
    for number, (name, filled) in enumerate(operation.links.items()):
        if name not in targets:
            continue
        parameters = {one: one for one in _names(targets[name]) if one in members}
        parameters |= {to: of for to, of in filled.items() if to.startswith("query.")}
        body = {to: of for to, of in filled.items() if not to.startswith("query.")}
        link: Schema = {"operationId": name, "parameters": _from_answer(parameters)}
        if body:
            link["requestBody"] = _from_answer(body)
        made[f"{name}{number}"] = link
    return made


def _from_answer(members: dict[str, str]) -> dict[str, str]:
    return {to: f"$response.body#/{of}" for to, of in members.items()}
