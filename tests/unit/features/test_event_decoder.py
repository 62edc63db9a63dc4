"""Decoding events: typed columns, and why a record is refused."""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.codec import kernel
from penstock.codec.columns import Columns
from penstock.errors import SchemaMismatch
from penstock.features.event_decoder import (
    BAD_SHOWN,
    DecodedEvents,
    EventDecoder,
    FieldSchema,
    fits,
)

RIDE = EventDecoder(
    "Ride",
    {
        "rider": FieldSchema("str"),
        "fare": FieldSchema("f64"),
        "seats": FieldSchema("i64", is_optional=True),
        "paid": FieldSchema("bool", is_optional=True),
        "more": FieldSchema("json", is_optional=True),
    },
)


@pytest.fixture(params=["interpreted", "compiled"], autouse=True)
def each_form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    form = kernel.load(pure=request.param == "interpreted")
    monkeypatch.setattr(kernel, "json_fields", form.json_fields)


def records(texts: Sequence[bytes]) -> Columns:
    count = len(texts)
    ends = [sum(map(len, texts[:i])) for i in range(count + 1)]
    bits = bytearray((count + 7) // 8)
    for i, text in enumerate(texts):
        bits[i >> 3] |= bool(text) << (i & 7)
    data = struct.pack(f"<{count + 1}I", *ends), b"".join(texts), bytes(bits)
    return Columns(count, bytes(8 * count), bytes(8 * count), None, None, None, data)


def rows(decoded: DecodedEvents) -> list[dict[str, Any]]:
    return [
        {name: column.value(i) for name, column in decoded.columns.items()}
        for i in range(len(decoded))
    ]


def decoded(*texts: bytes) -> list[dict[str, Any]]:
    return rows(RIDE.decode(records(texts)))


def value_of(kind: Any, text: bytes) -> Any:
    """The value of one field with this JSON text; the reason when it is refused."""
    decoder = EventDecoder("E", {"x": FieldSchema(kind)})
    batch = decoder.decode(records([b'{"x":' + text + b"}"]))
    return batch.columns["x"].value(0) if len(batch) else batch.bad[0].reason


def test_fields_become_columns_of_their_types() -> None:
    events = decoded(
        b'{"rider":"ana","fare":12.5,"seats":2,"paid":true,"more":{"a":[1,"]"]}}',
        b' { "fare" : 3 , "unknown" : [ {"x":"}"} ] , "rider" : "bo" } ',
    )

    assert events == [
        {"rider": "ana", "fare": 12.5, "seats": 2, "paid": True, "more": {"a": [1, "]"]}},
        {"rider": "bo", "fare": 3.0, "seats": None, "paid": None, "more": None},
    ]


def test_an_absent_value_is_empty_in_its_column() -> None:
    batch = RIDE.decode(records([b'{"rider":"ana","fare":1,"seats":null}']))

    assert batch.columns["seats"].values[0] == 0
    assert batch.columns["more"].values[0] is None


def test_bad_records_are_left_out_and_told() -> None:
    batch = RIDE.decode(
        records(
            [
                b'{"rider":"ana","fare":1}',
                b"[1]",
                b'{"rider":"ana"}',
                b'{"rider":7,"fare":1}',
                b'{"rider":"bo","fare":2}',
                b'{"rider":null,"fare":2}',
                b'{"rider":"bo","fare":2',
                b"",
            ]
        )
    )

    assert [row["rider"] for row in rows(batch)] == ["ana", "bo"]
    assert batch.records.tolist() == [0, 4]
    assert batch.bad_count == 6
    assert [(bad.index, bad.reason) for bad in batch.bad] == [
        (1, "it is not a JSON object"),
        (2, "field 'fare' is missing"),
        (3, "field 'rider' is 7, expected a string (str)"),
        (5, "field 'rider' is missing"),
        (6, "it is not a JSON object"),
        (7, "it is not a JSON object"),
    ]


def test_only_the_first_bad_records_are_described() -> None:
    batch = RIDE.decode(records([b"1"] * (BAD_SHOWN + 5)))

    assert len(batch.bad) == BAD_SHOWN
    assert batch.bad_count == BAD_SHOWN + 5


def test_the_last_of_equal_names_counts() -> None:
    good, bad = b'{"fare":"x","rider":"a","fare":1}', b'{"fare":1,"rider":"a","fare":"x"}'

    batch = RIDE.decode(records([good, bad]))

    assert batch.records.tolist() == [0]
    assert rows(batch)[0]["fare"] == 1.0


def test_names_and_texts_are_decoded() -> None:
    text = '{"\\u0072ider":"\\u00e9\\n\\ud83d\\ude00 é","fare":0}'.encode()

    assert decoded(text)[0]["rider"] == "é\n\U0001f600 é"


def test_half_of_a_surrogate_pair_is_refused() -> None:
    assert "expected a string" in value_of("str", b'"\\ud800"')


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"-0", 0),
        (b"2.0", 2),
        (b"15e2", 1500),
    ],
)
def test_an_i64_is_a_whole_number(text: bytes, value: int) -> None:
    assert value_of("i64", text) == value


@pytest.mark.parametrize(
    "text",
    [
        b"1.7",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"99999999999999999999",
        b"9007199254740993.0",
        b"true",
        b'"1"',
    ],
)
def test_other_values_are_no_i64(text: bytes) -> None:
    expected = f"field 'x' is {text.decode()}, expected an integer within 64 bits (i64)"
    assert value_of("i64", text) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"0.1",
        b"-0.0",
        b"123456789012345678",
        b"9007199254740993",
        b"1e22",
        b"1e23",
        b"4.9e-324",
        b"2.2250738585072011e-308",
        b"1.7976931348623157e308",
        b"0.000000000000000000000000000001",
        b"123456789012345678901234567890",
        b"1e-400",
        b"0e999",
    ],
)
def test_an_f64_is_rounded_as_python_does(text: bytes) -> None:
    assert repr(value_of("f64", text)) == repr(float(text))


@given(
    st.one_of(
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.tuples(st.integers(0, 10**17), st.integers(0, 25)).map(lambda x: f"{x[0]}e-{x[1]}"),
        st.from_regex(
            r"-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?", fullmatch=True
        ),
    )
)
@settings(max_examples=60)
def test_every_finite_number_is_the_nearest_float(text: str) -> None:
    for pure in (False, True):
        form = kernel.load(pure)
        numbers, present, index = bytearray(8), bytearray(1), bytearray(8)
        data = b'{"x":' + text.encode() + b"}"
        ends = struct.pack("<2I", 0, len(data))
        form.json_fields(ends, data, b"\1", 1, [b"x"], b"\1", numbers, present, index, 1)
        assert numbers == struct.pack("<d", float(text))


def test_a_number_beyond_the_floats_is_refused() -> None:
    assert value_of("f64", b"1e400") == "field 'x' is 1e400, expected a finite number (f64)"


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=5),
    ),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2)
    ),
    max_leaves=3,
)


@given(
    st.lists(st.dictionaries(st.sampled_from([*RIDE.schema, "zz", "é"]), VALUES), max_size=4),
    st.booleans(),
)
@settings(max_examples=40)
def test_decoding_keeps_what_the_rule_of_types_allows(events: list[Any], is_ascii: bool) -> None:
    texts = [json.dumps(event, ensure_ascii=is_ascii).encode() for event in events]
    good = []
    for event in events:
        found = {name: event.get(name) for name in RIDE.schema}
        if all(
            field.is_optional if found[name] is None else fits(field.type, found[name])
            for name, field in RIDE.schema.items()
        ):
            good.append(found)

    for pure in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "json_fields", kernel.load(pure).json_fields)
            assert decoded(*texts) == good


@given(st.integers(0, 60), st.binary(max_size=3))
@settings(max_examples=40)
def test_damaged_texts_give_the_same_in_both_forms(at: int, piece: bytes) -> None:
    text = b'{"rider":"an\\u00e9a","fare":-12.5e3,"seats":2,"paid":true,"more":[{}]}'
    damaged = text[:at] + piece + text[at + len(piece) :]
    found = []
    for pure in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "json_fields", kernel.load(pure).json_fields)
            batch = RIDE.decode(records([damaged, text]))
            found.append((rows(batch), batch.records.tolist(), batch.bad))

    assert repr(found[0]) == repr(found[1])


@pytest.mark.parametrize("size", [0, 3, 8])
def test_buffers_that_are_too_small_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="too small"):
        kernel.json_fields(
            bytes(8),
            b"",
            bytes(1),
            1,
            [b"x", b"y"],
            b"\0\0",
            bytearray(size),
            bytearray(2),
            bytearray(8),
            1,
        )


def test_offsets_outside_of_the_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="not inside"):
        kernel.json_fields(
            struct.pack("<2I", 0, 9), b"{}", b"\1", 1, [], b"", b"", b"", bytearray(8), 1
        )


@given(
    st.lists(st.dictionaries(st.sampled_from([*RIDE.schema, "zz"]), VALUES), min_size=1, max_size=4)
)
@settings(max_examples=40)
def test_many_fit_where_each_of_them_does(events: list[Any]) -> None:
    """One behind the other, and as elements of an array; in both forms."""
    texts = [json.dumps(event).encode() for event in events]
    ends = struct.pack(f"<{len(texts) + 1}I", *itertools.accumulate(map(len, texts), initial=0))
    array = b"[" + b",".join(texts) + b"]"

    def is_good(text: bytes) -> bool:
        try:
            RIDE.validate(text)
        except SchemaMismatch:
            return False
        return True

    for pure in (False, True):
        form = kernel.load(pure)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "json_fields", form.json_fields)
            expected = all(map(is_good, texts))
            assert RIDE.fit(ends, b"".join(texts), len(texts)) is expected
            found = form.element_spans(array, 9)
            if found is not None:
                assert RIDE.fit(found[0], array, len(texts), are_spans=True) is expected


def test_an_event_is_checked_before_it_is_appended() -> None:
    RIDE.validate(b'{"rider":"ana","fare":1}')
    RIDE.validate({"rider": "ana", "fare": 1, "seats": None})


@pytest.mark.parametrize(
    ("event", "field", "message"),
    [
        ({"fare": 1}, "rider", "invalid event 'Ride': field 'rider' is missing"),
        ({"rider": 1, "fare": 1}, "rider", "field 'rider' is 1, expected a string (str)"),
        ({"rider": "a", "fare": 1, "seats": 1.7}, "seats", "is 1.7, expected an integer within 64"),
        ({"rider": "a", "fare": True}, "fare", "is true, expected a finite number (f64)"),
        ({"rider": "a", "fare": 1, "zz": 1}, "zz", "'zz' is not declared; the fields are 'rider'"),
        (b"[1]", None, "it is [1], expected a JSON object"),
        (b"{", None, "it is not JSON"),
        (b'{"rider":"a","fare":1e400}', None, "it is not JSON: Number out of range"),
    ],
)
def test_an_event_that_does_not_fit_is_refused(event: Any, field: str | None, message: str) -> None:
    with pytest.raises(SchemaMismatch) as refused:
        RIDE.validate(event)

    assert message in str(refused.value)
    assert (refused.value.event, refused.value.field) == ("Ride", field)
