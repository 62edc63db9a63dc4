"""Bodies: the right kind, the right shape, or the right refusal."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from penstock import limits
from penstock.errors import InvalidArgument
from penstock.server.errors import ApiError
from penstock.server.http import bodies
from penstock.server.http.message import BATCH, Request
from penstock.wire.models import BatchBody, Publish, WriteBody
from tests.unit import nesting


class Shape(msgspec.Struct):
    n: int = 0


DECODER = msgspec.json.Decoder(Shape)


def sent(body: bytes, kind: bytes | None = b"application/json") -> Request:
    exchange: Any = None
    request = Request("POST", "/", "", {}, exchange, 0.0)
    request.body = body
    if kind is not None:
        request.headers[b"content-type"] = kind
    return request


def refusal(request: Request, empty: bytes | None = None) -> int:
    with pytest.raises(ApiError) as caught:
        bodies.decoded(request, DECODER, empty=empty)
    return caught.value.status


def test_json_is_json_whatever_parameters_follow_its_name() -> None:
    for kind in (b"application/json", b"  application/json; charset=utf-8", b"Application/JSON"):
        assert bodies.decoded(sent(b'{"n":1}', kind), DECODER).n == 1
        assert bodies.is_json(sent(b"", kind))
    assert not bodies.is_json(sent(b"", BATCH))


@pytest.mark.parametrize(
    "kind", [b"text/plain", b"application/jsonx", b"application/x-www-form-urlencoded", b"", None]
)
def test_any_other_kind_is_unsupported_before_it_is_looked_at(kind: bytes | None) -> None:
    assert refusal(sent(b"not json", kind)) == 415
    with pytest.raises(ApiError):
        bodies.is_json(sent(b"", kind))


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b'{"n":"x"}', b"\xff", b'{"x":"\xff"}', b'{"n":NaN}', b"[" * 100_000],
)
def test_a_wrong_body_is_invalid(body: bytes) -> None:
    assert refusal(sent(body)) == 400


# How deep it may nest.

SHELLS = [
    (b'{"records":[{"data":1},{"data":%b}]}', WriteBody),
    (b'{"records":[{"data":1},{"data":1,"meta":%b}]}', WriteBody),
    (b'{"op":"publish","topic":"t","records":[{"data":%b}]}', Publish),
    (b'{"writes":[{"topic":"t","records":[{"data":%b}]}]}', BatchBody),
    (b'{"writes":[{"topic":"t","records":[{"data":1,"meta":%b}]}]}', BatchBody),
]


@pytest.mark.parametrize("shape", nesting.SHAPES)
@pytest.mark.parametrize(("shell", "model"), SHELLS)
def test_the_body_around_a_record_does_not_count(shell: bytes, model: Any, shape: str) -> None:
    decoder = msgspec.json.Decoder(model)
    good, bad = (nesting.SHAPES[shape](depth) for depth in (nesting.MOST, nesting.MOST + 1))

    assert isinstance(bodies.parsed(shell % good, decoder), model)
    with pytest.raises(InvalidArgument, match=r"nests 129 levels deep, at most 128 are allowed"):
        bodies.parsed(shell % bad, decoder)


def test_the_record_that_nests_too_deep_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"record 1: payload nests 129 levels deep"):
        bodies.parsed(SHELLS[0][0] % nesting.arrays(129), msgspec.json.Decoder(WriteBody))
    with pytest.raises(InvalidArgument, match=r"record 1: meta nests 129 levels deep"):
        bodies.parsed(SHELLS[1][0] % nesting.arrays(129), msgspec.json.Decoder(WriteBody))


@pytest.mark.parametrize("shell", [b'{"n":1,"unknown":%b}', b"%b", b'{"n":%b}'])
def test_a_body_nested_absurdly_is_refused_before_it_is_parsed(shell: bytes) -> None:
    """Whatever is in it: how deep a parser goes is up to the interpreter."""
    for depth in (limits.BODY_DEPTH_MAX + 1, 5000, 100_000):
        with pytest.raises(ApiError, match=r"the body nests \d+ levels deep, at most 256 are"):
            bodies.parsed(shell % nesting.arrays(depth), DECODER)


def test_what_nobody_knows_may_nest_as_deep_as_a_body() -> None:
    body = b'{"n":1,"unknown":%b}' % nesting.arrays(limits.BODY_DEPTH_MAX - 1)

    assert bodies.parsed(body, DECODER).n == 1


def test_an_absent_body_means_what_the_route_says() -> None:
    assert bodies.decoded(sent(b"", None), DECODER, empty=b'{"n":7}').n == 7
    assert refusal(sent(b"{", b"application/json"), empty=b"{}") == 400


def test_a_configuration_keeps_what_is_known_and_takes_null_for_the_default() -> None:
    given = {"ttl_ms": 5, "bogus": 1, "durability": None, "priority": None, "dead_letter": "d"}

    assert bodies.config_of(given) == {"ttl_ms": 5, "priority": None, "dead_letter": "d"}
