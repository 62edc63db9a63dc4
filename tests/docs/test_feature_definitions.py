"""The page about definitions of features names every function, option, step and type."""

from __future__ import annotations

import inspect

from penstock import features
from penstock.features.definition_nodes import COLUMN_TYPES
from penstock.features.event_chain import EventChain
from penstock.features.expression import INFIX
from penstock.features.expression_functions import FUNCTIONS
from tests.docs.pages import page, rows

PAGE = "docs/features/definition.md"


def test_the_table_of_functions_is_that_of_the_code() -> None:
    table = {row[0]: row[1] for row in rows(PAGE, "## Expressions") if "(" in row[0]}
    known = {
        function.syntax: function.summary.replace("`", "")
        for function in FUNCTIONS.values()
        if function.is_call
    }

    assert {syntax: said for syntax, said in table.items() if syntax in known} == known
    assert {syntax for syntax in table if syntax not in known} == {
        "== != < <= > >= in (…) not in (…)"
    }


def test_every_operator_is_in_the_table_of_how_they_bind() -> None:
    words = {word for row in rows(PAGE, "## Expressions") for word in row[0].split()}

    assert {*INFIX, "not"} <= words


def test_every_option_and_type_of_an_event_is_in_a_table() -> None:
    first = [row[0] for row in rows(PAGE, "## Events")]
    options = {name for cell in first for name in cell.split(", ")}
    declared = set(inspect.signature(features.event).parameters) - {"declared", "name", "upstream"}

    assert declared <= options
    assert set(COLUMN_TYPES) <= {row[1] for row in rows(PAGE, "## Events")}


def test_every_step_is_in_a_table() -> None:
    cells = " ".join(row[0] for row in rows(PAGE, "## Events"))
    steps = [
        name
        for name, method in vars(EventChain).items()
        if inspect.isfunction(method)
        and inspect.signature(method).return_annotation == "EventChain"
    ]

    assert len(steps) > 7
    assert not [name for name in steps if not name.startswith("_") and f"{name}(" not in cells]


def test_every_public_name_is_mentioned() -> None:
    text = page(PAGE)
    types = {name for name in features.__all__ if inspect.isclass(getattr(features, name))}

    assert not [name for name in features.__all__ if name not in types and name not in text]
