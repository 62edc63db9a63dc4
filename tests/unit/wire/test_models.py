"""Shapes of what callers send: defaults, strictness, and what is passed over."""

from __future__ import annotations

import msgspec
import pytest

from penstock.wire import models


def decoded(kind: type, text: str) -> object:
    return msgspec.json.Decoder(kind).decode(text)


def test_a_payload_stays_the_text_that_was_sent() -> None:
    body = decoded(models.WriteBody, '{"records":[{"data": {"b":1.0,"a" :[ ]} },{"data":null}]}')

    assert isinstance(body, models.WriteBody)
    assert [bytes(record.data) for record in body.records] == [b'{"b":1.0,"a" :[ ]}', b"null"]
    assert body.records[0].meta is models.ABSENT


@pytest.mark.parametrize("kind", [models.DiffBody, models.DeleteBody, models.WriteHead])
def test_nothing_is_required_where_everything_has_a_default(kind: type) -> None:
    assert decoded(kind, "{}") == kind()


def test_unknown_fields_are_passed_over() -> None:
    assert decoded(models.DiffBody, '{"bogus":1,"limit":5}') == models.DiffBody(limit=5)
    followed = decoded(models.WatchBody, '{"topics":{"t":{"bogus":true}}}')
    assert followed == models.WatchBody(topics={"t": models.Follow()})


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (models.WriteBody, "{}"),
        (models.WriteBody, '{"records":[{}]}'),
        (models.WriteBody, '{"records":[{"data":1,"tag":2}]}'),
        (models.DiffBody, '{"from_seq":-1}'),
        (models.DiffBody, '{"limit":"5"}'),
        (models.DiffBody, '{"consistency":"maybe"}'),
        (models.DiffBody, '{"node":5}'),
        (models.WatchBody, "{}"),
        (models.WatchBody, '{"topics":["t"]}'),
        (models.PositionBody, "{}"),
        (models.Command, "{}"),
        (models.Publish, '{"records":[]}'),
        (models.BatchBody, '{"writes":[{"records":[]}]}'),
    ],
)
def test_ill_typed_and_missing_fields_are_refused(kind: type, text: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        decoded(kind, text)
