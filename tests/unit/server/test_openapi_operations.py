"""One entry a route: complete sentences, known codes, links that name operations."""

from __future__ import annotations

import pytest

from penstock.server.openapi_errors import ANYWHERE, FAULTS
from penstock.server.openapi_operations import OPERATIONS, PARAMETERS, Operation
from penstock.server.openapi_schemas import components

CODES = {fault.code for fault in FAULTS}
each = pytest.mark.parametrize(
    "operation", OPERATIONS.values(), ids=[" ".join(key) for key in OPERATIONS]
)


def test_an_operation_has_a_name_of_its_own() -> None:
    names = [operation.id for operation in OPERATIONS.values()]

    assert len(set(names)) == len(names)


@each
def test_an_operation_is_described_in_sentences(operation: Operation) -> None:
    assert operation.about.endswith(".")
    assert not operation.summary.endswith(".")
    assert all(good.about.endswith((".", "`.")) for good in operation.good.values())
    assert all(one["description"].endswith(".") for one in operation.parameters)


@each
def test_an_operation_fails_in_known_ways_that_not_all_share(operation: Operation) -> None:
    assert set(operation.faults) <= CODES
    assert not set(operation.faults) & set(ANYWHERE)


@each
def test_a_link_names_an_operation_and_its_parameters(operation: Operation) -> None:
    by_name = {one.id: (template, one) for (_, template), one in OPERATIONS.items()}
    for name, parameters, body in operation.links:
        template, target = by_name[name]
        known = {one["name"] for one in target.parameters}
        known |= {part[1:] for part in template.split("/") if part.startswith(":")}
        assert {one.removeprefix("query.") for one in parameters} <= known
        assert body is None or target.body is not None


@each
def test_a_body_is_a_schema_that_exists(operation: Operation) -> None:
    bodies = [good.bodies for good in operation.good.values()]
    bodies += [operation.body.bodies] if operation.body is not None else []
    for schema in [schema for body in bodies for schema in body.values()]:
        assert "type" in schema or schema["$ref"].rpartition("/")[2] in components()


def test_every_parameter_in_a_path_is_described() -> None:
    named = {
        part[1:]
        for _, template in OPERATIONS
        for part in template.split("/")
        if part.startswith(":")
    }

    assert named == set(PARAMETERS)
