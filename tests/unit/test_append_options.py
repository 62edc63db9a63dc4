"""An option of an append is declared once and reaches every interface."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest
import typer

from penstock.append_options import (
    NO_OPTIONS,
    AppendKeywords,
    AppendOptions,
    checked,
    refuse_in_batch,
)
from penstock.cli.main import app
from penstock.client.async_client import AsyncClient
from penstock.client.client import Client
from penstock.engine.engine import Log
from penstock.errors import InvalidArgument
from penstock.limits import DELAY_MS_MAX, TIME_MS_MAX
from penstock.wire.models import Publish, WriteBody, WriteHead

OPTIONS = set(AppendOptions.__struct_fields__)


def test_the_keywords_are_the_fields() -> None:
    assert set(AppendKeywords.__annotations__) == OPTIONS


@pytest.mark.parametrize("verb", [Log.append, Log.submit, Client.append, AsyncClient.append])
def test_a_verb_takes_every_option(verb: Any) -> None:
    hints = get_type_hints(verb)

    assert get_args(hints["options"]) == (AppendKeywords,)


@pytest.mark.parametrize("model", [WriteBody, WriteHead, Publish])
def test_a_request_has_every_option(model: Any) -> None:
    assert set(model.__struct_fields__) >= OPTIONS


@pytest.mark.parametrize(
    ("words", "without"), [(["append"], set()), (["queue", "put"], {"create"})]
)
def test_a_command_has_a_flag_for_every_option(words: list[str], without: set[str]) -> None:
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.get_command(None, word)

    flags = {one.name for one in command.params}

    assert flags >= OPTIONS - without
    assert not flags & without


def test_a_call_without_options_costs_no_check() -> None:
    assert checked({}) is NO_OPTIONS


def test_only_given_options_are_sent() -> None:
    assert checked({"create": False, "delay_ms": 5}).members() == {"create": False, "delay_ms": 5}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"expected_seq": -1}, "invalid expected_seq -1: expected `int` >= 0"),
        ({"expected_seq": "7"}, "invalid expected_seq '7': expected `int | null`"),
        ({"expected_seq": 1 << 64}, "expected at most 18446744073709551615"),
        ({"delay_ms": DELAY_MS_MAX + 1}, f"expected at most {DELAY_MS_MAX}"),
        ({"deliver_at": TIME_MS_MAX + 1}, f"expected at most {TIME_MS_MAX}"),
        ({"create": "yes"}, "invalid create 'yes': expected `bool | null`"),
    ],
)
def test_a_wrong_value_is_refused_by_name(given: AppendKeywords, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        checked(given)

    assert message in str(caught.value)


def test_an_unknown_option_is_an_error_of_the_call() -> None:
    with pytest.raises(TypeError, match="expected_sequence"):
        checked({"expected_sequence": 1})  # type: ignore[typeddict-unknown-key]


@pytest.mark.parametrize("name", ["deliver_at", "delay_ms", "cron", "timezone"])
def test_a_batch_over_several_topics_has_no_time(name: str) -> None:
    refuse_in_batch({name: None})
    with pytest.raises(InvalidArgument, match=rf"append_many takes no {name} \(5\)"):
        refuse_in_batch({name: 5})


def test_an_unknown_keyword_of_a_batch_is_an_error_of_the_call() -> None:
    with pytest.raises(TypeError, match=r"append_many\(\) got an unexpected .* 'tags'"):
        refuse_in_batch({"tags": None})
