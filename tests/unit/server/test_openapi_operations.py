"""One entry a route: complete sentences, known codes, links that name operations."""

from __future__ import annotations

import pytest

from penstock.server.openapi_errors import ANYWHERE, FAULTS
from penstock.server.openapi_operations import JSON, OPERATIONS, PARAMETERS, Operation

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
    assert all(answer.about.endswith(".") for answer in operation.answers.values())
    assert all(one["description"].endswith(".") for one in operation.parameters)


@each
def test_the_errors_of_an_operation_are_known_and_not_those_of_every_route(
    operation: Operation,
) -> None:
    assert set(operation.faults) <= CODES
    assert not set(operation.faults) & {*ANYWHERE, "not_found"}


@each
def test_a_link_names_members_of_the_request_and_of_the_answer(operation: Operation) -> None:
    by_name = {one.id: one for one in OPERATIONS.values()}
    answers = [one for one in operation.answers.values() if JSON in one.bodies]
    for name, filled in operation.links.items():
        target = by_name[name]
        known = {f"query.{one['name']}" for one in target.parameters if one["in"] == "query"}
        known |= set() if target.body is None else {*target.body.__struct_fields__}
        assert set(filled) <= known
        for answer in answers:
            model = answer.bodies[JSON]
            assert not isinstance(model, dict)
            assert set(filled.values()) <= set(model.__struct_fields__)


def test_every_parameter_in_a_path_is_described() -> None:
    named = {
        part[1:]
        for _, template in OPERATIONS
        for part in template.split("/")
        if part.startswith(":")
    }

    assert named == set(PARAMETERS)
