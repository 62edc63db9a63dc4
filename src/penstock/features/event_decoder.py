"""From JSON objects to columns of typed values, and the check of one event before it is appended.

Both follow one rule. An i64 is a JSON integer within 64 bits; a number with a fraction or an
exponent is one too if it is whole and below 2^53. An f64 is any number that is finite as a
float, rounded correctly. A str is a string, a bool true or false, a json anything. null counts as
absent, which only optional fields may be. Of equal names the last counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from penstock.codec import kernel
from penstock.codec.columns import Columns
from penstock.errors import InvalidArgument, SchemaMismatch
from penstock.features.event_column import ColumnType, EventColumn, Int64s
from penstock.features.time_bounds import TimeBounds

TYPE_CODES: Final[dict[ColumnType, int]] = {"i64": 0, "f64": 1, "bool": 2, "str": 3, "json": 4}
EXPECTED: Final[dict[ColumnType, str]] = {
    "i64": "an integer within 64 bits",
    "f64": "a finite number",
    "bool": "true or false",
    "str": "a string",
    "json": "a value",
}
_OPTIONAL: Final = 8
_WHOLE_END: Final = 1 << 53
BAD_SHOWN: Final = 16  # bad events of a batch that are described; the others are counted


@dataclass(frozen=True, slots=True)
class FieldSchema:
    """One field of an event."""

    type: ColumnType
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class BadEvent:
    """A record that does not fit the schema, and why."""

    index: int  # in the batch
    reason: str


@dataclass(frozen=True, slots=True)
class DecodedEvents:
    """The good events of a batch. Immutable."""

    columns: Mapping[str, EventColumn]
    records: Int64s  # the number of each event's record in the batch, ascending
    bad: Sequence[BadEvent]  # the first few
    bad_count: int
    others: int  # members that the schema does not have

    def __len__(self) -> int:
        return len(self.records)


class EventDecoder:
    """Decodes records of one schema. Immutable."""

    def __init__(
        self, event: str, schema: Mapping[str, FieldSchema], times: TimeBounds | None = None
    ) -> None:
        self.event = event
        self.schema = dict(schema)
        self._times = times  # of events that are to be committed: `decode` leaves it to its caller
        self._names = list(self.schema)
        self._encoded = [name.encode() for name in self._names]
        self._types = bytes(
            TYPE_CODES[field.type] | (_OPTIONAL if field.is_optional else 0)
            for field in self.schema.values()
        )

    def decode(self, batch: Columns) -> DecodedEvents:
        """The events of a batch of records, whose data was wanted."""
        count, width = batch.count, len(self._names)
        if batch.data is None:
            raise InvalidArgument("the records have no data: read them with the column `data`")
        numbers = np.empty(max(1, width * count), np.int64)
        present = np.empty(max(1, width * count), np.uint8)
        records = np.empty(max(1, count), np.int64)
        good, texts, bad, others = kernel.json_fields(
            *batch.data,
            count,
            self._encoded,
            self._types,
            numbers.data,
            present.data,
            records.data,
            BAD_SHOWN,
        )
        columns: dict[str, EventColumn] = {}
        for number, (name, field) in enumerate(self.schema.items()):
            here = slice(number * count, number * count + good)
            values: Any = numbers[here]
            is_present = present[here].view(np.bool_)
            if field.type == "f64":
                values = values.view(np.float64)
            elif field.type == "bool":
                values = values.astype(np.bool_)
            elif field.type != "i64":
                found = texts[number] or []
                values = np.empty(good, np.object_)
                values[:] = found[:good] if field.type == "str" else _decoded(found[:good])
                if field.type == "json":
                    is_present = is_present & (values != None)  # noqa: E711 - of each element
            columns[name] = EventColumn(field.type, values, is_present)
        described = [
            BadEvent(record, self._reason(code, field, value)) for record, code, field, value in bad
        ]
        return DecodedEvents(columns, records[:good], described, count - good, others)

    def fit(
        self,
        places: bytes,
        text: bytes,
        count: int,
        *,
        are_spans: bool = False,
        now_ms: int = 0,
    ) -> bool:
        """Do all of these JSON texts fit the schema, without members that it does not have, and
        are their times good if they are committed now? `places` says where they lie in `text`, as
        `kernel.json_fields` takes it."""
        room = max(1, len(self._names) * count)
        numbers, present = bytearray(8 * room), bytearray(room)
        good, _, _, others = kernel.json_fields(
            places,
            text,
            b"\xff" * (-(-count // 8)),
            count,
            self._encoded,
            self._types,
            numbers,
            present,
            bytearray(8 * max(1, count)),
            0,
            are_spans,
            False,
        )
        if good != count or others:
            return False
        if self._times is None:
            return True
        first = self._names.index(self._times.field) * count
        times = np.frombuffer(numbers, np.int64, count, 8 * first)
        are_good = all(present[first : first + count]) and self._times.hold(times, now_ms).all()
        return bool(are_good)

    def _reason(self, code: int, number: int, value: bytes) -> str:
        if number < 0:
            return "it is not a JSON object"
        name = self._names[number]
        if code == 2:
            return f"field {name!r} is missing"
        return _mismatch(name, self.schema[name].type, value.decode(errors="replace"))

    def validate(
        self, data: bytes | Mapping[str, Any], index: int | None = None, now_ms: int = 0
    ) -> None:
        """Check one event. SchemaMismatch when it does not fit, has a field that is not declared,
        or a time that is not good if it is committed now. `index` is its place among several."""
        event = data if isinstance(data, Mapping) else self._object(data, index)
        for name, field in self.schema.items():
            value = event.get(name)
            if value is None:
                if not field.is_optional:
                    raise self._misfit(f"field {name!r} is missing", name, None, index)
            elif not fits(field.type, value):
                reason = _mismatch(name, field.type, _shown(value))
                raise self._misfit(reason, name, value, index)
        if len(event) > len(self.schema) or not event.keys() <= self.schema.keys():
            for name, value in event.items():
                if name not in self.schema:
                    reason = f"field {name!r} is not declared; the fields are " + ", ".join(
                        map(repr, self._names)
                    )
                    raise self._misfit(reason, name, value, index)
        if self._times is not None:
            time = event.get(self._times.field)
            complaint = self._times.complaint(None if time is None else int(time), now_ms)
            if complaint:
                raise self._misfit(complaint, self._times.field, time, index)

    def _object(self, data: bytes, index: int | None) -> Mapping[str, Any]:
        try:
            event = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._misfit(f"it is not JSON: {error}", None, data, index) from error
        if not isinstance(event, dict):
            reason = f"it is {_shown(event)}, expected a JSON object"
            raise self._misfit(reason, None, event, index)
        return event

    def _misfit(self, why: str, field: str | None, value: Any, index: int | None) -> SchemaMismatch:
        place = "" if index is None else f" (number {index + 1} of the push)"
        return SchemaMismatch(
            f"invalid event {self.event!r}{place}: {why}",
            event=self.event,
            field=field,
            value=value,
            index=index,
        )


def fits(kind: ColumnType, value: Any) -> bool:
    """Is this a value of the type, by the rule above? It is not None."""
    match kind:
        case "str":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
        case "json":
            return True
        case "i64":
            if isinstance(value, float):
                return value.is_integer() and abs(value) < _WHOLE_END
            return _is_int(value) and -(1 << 63) <= value < 1 << 63
        case "f64":
            try:
                return (isinstance(value, float) or _is_int(value)) and abs(float(value)) < np.inf
            except OverflowError:
                return False


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _mismatch(name: str, kind: ColumnType, value: str) -> str:
    return f"field {name!r} is {value}, expected {EXPECTED[kind]} ({kind})"


def _shown(value: Any) -> str:
    try:
        text = msgspec.json.encode(value).decode(errors="replace")
    except (TypeError, ValueError, OverflowError):
        text = repr(value)
    return text if len(text) <= 200 else text[:200] + "…"


def _decoded(texts: Sequence[Any]) -> list[Any]:
    """The values of JSON texts; a text that is no JSON, in a record that was not checked when it
    was appended, counts as absent."""
    return [None if text is None else _value(text) for text in texts]


def _value(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
