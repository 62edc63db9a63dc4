"""Fields of JSON objects, column by column, with the types that a schema declares."""

from __future__ import annotations

import json

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.characters import (
    BACKSLASH,
    CLOSE_BRACE,
    CLOSE_BRACKET,
    COLON,
    COMMA,
    LETTER_F,
    LETTER_N,
    LETTER_T,
    MINUS,
    NINE,
    OPEN_BRACE,
    OPEN_BRACKET,
    QUOTE,
    SPACE,
    ZERO,
)
from penstock.codec.kernel_source.field_types import (
    BAD_MISSING,
    BAD_OBJECT,
    BAD_TYPE,
    BAD_VALUE_BYTES_MAX,
    FIELD_BOOL,
    FIELD_F64,
    FIELD_GUESSES,
    FIELD_JSON,
    FIELD_OPTIONAL,
    FIELD_STR,
    FIELD_TYPES,
    VALUE_ABSENT,
    VALUE_PRESENT,
    VALUE_WRONG,
)
from penstock.codec.kernel_source.json_text import blanks_end, letters_end, number_end, word_end
from penstock.codec.kernel_source.layout import (
    OFFSET_BYTES,
    SPAN_BYTES,
    SPAN_DATA,
    SPAN_DATA_LEN,
)
from penstock.codec.kernel_source.memory import HeldBuffer, OutputBuffer, u32

if not cython.compiled:
    from math import floor, isinf, isnan

    def longs_at(p):
        return memoryview(p).cast("q")

    def doubles_at(p):
        return memoryview(p).cast("d")

    def short_float(p, at, end):
        return float(p[at:end])

    def writable_at(p):
        return p

    def whole_of(x):
        return int(x)

    def ascii_text(p, at, end):
        return str(p[at:end], "ascii")

    def equal_at(p, at, q, start, size):
        return p[at : at + size] == q[start : start + size]


def text_end(p, at, end):
    """Just behind the string whose first character is at `at`, or -1 when it does not end or has
    a control character. Its escapes and its UTF-8 are not checked."""
    while True:
        at = letters_end(p, at, end)
        if at >= end or p[at] < SPACE:
            return -1
        if p[at] == QUOTE:
            return at + 1
        at += 2 if p[at] == BACKSLASH else 1


def nested_end(p, at, end):
    """Just behind the array or object at `at`, or -1 when it does not end. Only brackets and
    strings are looked at."""
    depth: int64_t = 0
    c: cython.int
    while at < end:
        c = p[at]
        at += 1
        if c == QUOTE:
            at = text_end(p, at, end)
            if at < 0:
                return -1
        elif c in (OPEN_BRACE, OPEN_BRACKET):
            depth += 1
        elif c in (CLOSE_BRACE, CLOSE_BRACKET):
            depth -= 1
            if depth == 0:
                return at
    return -1


def any_value_end(p, at, end):
    """Just behind the value at `at`, or -1."""
    c: cython.int = p[at]
    if c == QUOTE:
        return text_end(p, at + 1, end)
    if c in (OPEN_BRACE, OPEN_BRACKET):
        return nested_end(p, at, end)
    if c == MINUS or ZERO <= c <= NINE:
        return number_end(p, at, end)
    return word_end(p, at, end)


def is_whole(p, at, end):
    """Is the JSON number p[at:end] written without fraction and exponent?"""
    if p[at] == MINUS:
        at += 1
    while at < end and ZERO <= p[at] <= NINE:
        at += 1
    return at == end


def fits_long(p, at, end):
    """Does the whole number p[at:end] fit 64 bits with a sign?"""
    negative: cython.bint = p[at] == MINUS
    value: uint64_t = 0
    if negative:
        at += 1
    if end - at != 19:
        return end - at < 19
    while at < end:
        value = value * 10 + (p[at] - ZERO)
        at += 1
    return (value - negative) >> 63 == 0  # below zero there is one number more


def long_of(p, at, end):
    """The whole number p[at:end], which fits."""
    negative: cython.bint = p[at] == MINUS
    value: int64_t = 0
    if negative:
        at += 1
    while at < end:  # the least number has no positive twin
        value = value * 10 - (p[at] - ZERO)
        at += 1
    return value if negative else -value


def float_of(p, at, end):
    """The float nearest to the JSON number p[at:end]; infinite when it is too large."""
    x: cython.double = short_float(p, at, end)
    return float(p[at:end]) if isnan(x) else x


def field_of(p, at, size, names, starts, count, guess):
    """The number of the field with the name p[at:at+size], or -1. The guess is tried first."""
    i: int64_t
    if (
        0 <= guess < count
        and starts[guess + 1] - starts[guess] == size
        and equal_at(p, at, names, starts[guess], size)
    ):
        return guess
    for i in range(count):
        if starts[i + 1] - starts[i] == size and equal_at(p, at, names, starts[i], size):
            return i
    return -1


def decoded_text(quoted: bytes):
    """The text of a JSON string, or None when its escapes or its UTF-8 are wrong, or when it has
    half of a surrogate pair."""
    try:
        text = json.loads(quoted.decode())
        text.encode()
    except ValueError:
        return None
    return text


def json_fields(
    offsets,
    texts,
    bits,
    count: int64_t,
    names: list,
    types: bytes,
    numbers,
    present,
    indices,
    bad_max: int64_t,
    are_spans: cython.bint = False,
    with_texts: cython.bint = True,
):
    """Decode the declared fields of `count` JSON objects, laid out as `columns` gives them:
    (good records, columns, bad records, members of other names). If `are_spans`, `offsets` is a
    table of spans instead.

    Good records are written one behind the other: 8 bytes for a number or a boolean at
    field * count + row of `numbers`, a byte there of `present`, the record's number at `indices`.
    The columns are lists of str for texts and of bytes for JSON values, None for other types. Of
    records that do not fit the schema the first `bad_max` are listed: (record, reason, field,
    value). The last of equal names counts. Members of other names are only counted. Without
    `with_texts` texts and JSON values are checked alone.
    """
    places: HeldBuffer = HeldBuffer(offsets)
    held: HeldBuffer = HeldBuffer(texts)
    there: HeldBuffer = HeldBuffer(bits)
    number_room: HeldBuffer = HeldBuffer(numbers)
    present_room: HeldBuffer = HeldBuffer(present)
    index_room: HeldBuffer = HeldBuffer(indices)
    joined: HeldBuffer = HeldBuffer(b"".join(names))
    fields: int64_t = len(names)
    if (
        places.size < (SPAN_BYTES * count if are_spans else OFFSET_BYTES * (count + 1))
        or there.size < (count + 7) // 8
        or min(number_room.size, 8 * present_room.size) < 8 * fields * count
        or index_room.size < 8 * count
        or len(types) != fields
    ):
        raise ValueError("a buffer is too small for the records")
    p: ReadPointer = held.at
    name_texts: ReadPointer = joined.at
    kinds: bytes = types
    workspace: OutputBuffer = OutputBuffer(8 * (4 * fields + 1 + FIELD_GUESSES))
    starts: cython.pointer[int64_t] = longs_at(workspace.at)  # of names
    longs: cython.pointer[int64_t] = longs_at(number_room.at)
    doubles: cython.pointer[cython.double] = doubles_at(number_room.at)
    rows: cython.pointer[int64_t] = longs_at(index_room.at)
    presence: WritePointer = writable_at(present_room.at)
    i: int64_t
    f: int64_t
    at: int64_t = 0
    # Behind the starts: the state of each field, where its value is, and the guesses.
    states: int64_t = fields + 1
    froms: int64_t = 2 * fields + 1
    ends: int64_t = 3 * fields + 1
    guesses: int64_t = 4 * fields + 1
    for f in range(fields):
        starts[f] = at
        at += len(names[f])
    starts[fields] = at
    for f in range(FIELD_GUESSES):
        starts[guesses + f] = f
    columns: list = [
        [None] * count if types[f] & FIELD_TYPES >= FIELD_STR else None for f in range(fields)
    ]
    bad: list = []
    column: list
    end: int64_t
    stop: int64_t
    start: int64_t
    size: int64_t
    position: int64_t
    good: int64_t = 0
    others: int64_t = 0
    kind: cython.int
    state: cython.int
    reason: cython.int
    c: cython.int
    x: cython.double
    for i in range(count):
        if are_spans:
            at = u32(places.at, SPAN_BYTES * i + SPAN_DATA)
            end = at + u32(places.at, SPAN_BYTES * i + SPAN_DATA_LEN)
        else:
            at = u32(places.at, OFFSET_BYTES * i)
            end = u32(places.at, OFFSET_BYTES * (i + 1))
        if not at <= end <= held.size:
            raise ValueError(f"record {i}: its text is not inside the buffer")
        for f in range(fields):
            starts[states + f] = VALUE_ABSENT
        reason = BAD_OBJECT
        position = 0
        at = blanks_end(p, at, end)
        if at < end and p[at] == OPEN_BRACE and there.at[i >> 3] >> (i & 7) & 1:
            at = blanks_end(p, at + 1, end)
            if at < end and p[at] == CLOSE_BRACE:
                reason = 0
                at += 1
            while reason:
                # A name.
                if at >= end or p[at] != QUOTE:
                    break
                start = at + 1
                stop = letters_end(p, start, end)
                if stop < end and p[stop] == QUOTE:
                    f = starts[guesses + position] if position < FIELD_GUESSES else 0
                    size = stop - start
                    at = stop + 1
                    f = field_of(p, start, size, name_texts, starts, fields, f)
                    if position < FIELD_GUESSES:
                        starts[guesses + position] = f
                else:
                    at = text_end(p, stop, end)
                    if at < 0:
                        break
                    name = decoded_text(bytes(p[start - 1 : at]))
                    if name is None:
                        break
                    name = name.encode()
                    f = names.index(name) if name in names else -1
                position += 1
                others += f < 0
                at = blanks_end(p, at, end)
                if at >= end or p[at] != COLON:
                    break
                at = blanks_end(p, at + 1, end)
                if at >= end:
                    break
                # Its value.
                c = p[at]
                stop = any_value_end(p, at, end)
                if stop < 0:
                    break
                if f >= 0:
                    kind = kinds[f] & FIELD_TYPES
                    state = VALUE_WRONG
                    if c == LETTER_N:
                        state = VALUE_ABSENT
                    elif kind == FIELD_STR:
                        if c == QUOTE:
                            column = columns[f]
                            if letters_end(p, at + 1, stop) == stop - 1:
                                if with_texts:
                                    column[good] = ascii_text(p, at + 1, stop - 1)
                                state = VALUE_PRESENT
                            else:
                                text = decoded_text(bytes(p[at:stop]))
                                if text is not None:
                                    column[good] = text
                                    state = VALUE_PRESENT
                    elif kind == FIELD_JSON:
                        if with_texts:
                            column = columns[f]
                            column[good] = bytes(p[at:stop])
                        state = VALUE_PRESENT
                    elif kind == FIELD_BOOL:
                        if c in (LETTER_T, LETTER_F):
                            longs[f * count + good] = c == LETTER_T
                            state = VALUE_PRESENT
                    elif c == MINUS or ZERO <= c <= NINE:
                        if kind == FIELD_F64:
                            x = float_of(p, at, stop)
                            if not isinf(x):
                                doubles[f * count + good] = x
                                state = VALUE_PRESENT
                        elif is_whole(p, at, stop):
                            if fits_long(p, at, stop):
                                longs[f * count + good] = long_of(p, at, stop)
                                state = VALUE_PRESENT
                        else:
                            x = float_of(p, at, stop)
                            if -9007199254740992.0 < x < 9007199254740992.0 and floor(x) == x:
                                longs[f * count + good] = whole_of(x)
                                state = VALUE_PRESENT
                    starts[states + f] = state
                    starts[froms + f] = at
                    starts[ends + f] = stop
                at = blanks_end(p, stop, end)
                if at < end and p[at] == COMMA:
                    at = blanks_end(p, at + 1, end)
                elif at < end and p[at] == CLOSE_BRACE:
                    reason = 0
                    at += 1
                else:
                    break
            if reason == 0 and blanks_end(p, at, end) != end:
                reason = BAD_OBJECT
        f = -1
        if reason == 0:
            for f in range(fields):
                state = starts[states + f]
                presence[f * count + good] = state == VALUE_PRESENT
                if state == VALUE_PRESENT:
                    continue
                if state == VALUE_WRONG:
                    reason = BAD_TYPE
                    break
                if not kinds[f] & FIELD_OPTIONAL:
                    reason = BAD_MISSING
                    break
                longs[f * count + good] = 0
                if kinds[f] & FIELD_TYPES >= FIELD_STR:
                    column = columns[f]
                    column[good] = None
        if reason == 0:
            rows[good] = i
            good += 1
        elif len(bad) < bad_max:
            value = b""
            if reason == BAD_TYPE:
                stop = min(starts[ends + f], starts[froms + f] + BAD_VALUE_BYTES_MAX)
                value = bytes(p[starts[froms + f] : stop])
            bad.append((i, reason, f, value))
    return good, columns, bad, others
