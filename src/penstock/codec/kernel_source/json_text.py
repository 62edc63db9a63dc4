"""JSON texts: is it plain JSON, and how deep does it nest?"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.characters import (
    ASCII_END,
    BACKSLASH,
    CARRIAGE_RETURN,
    CLOSE_BRACE,
    CLOSE_BRACKET,
    COLON,
    COMMA,
    DOT,
    LETTER_A,
    LETTER_B,
    LETTER_D,
    LETTER_E,
    LETTER_F,
    LETTER_N,
    LETTER_R,
    LETTER_T,
    LETTER_U,
    LINE_FEED,
    LOWER_CASE,
    MINUS,
    NINE,
    OPEN_BRACE,
    OPEN_BRACKET,
    PLUS,
    QUOTE,
    SEVEN,
    SLASH,
    SPACE,
    TAB,
    WORD_ALSE,
    WORD_NULL,
    WORD_TRUE,
    ZERO,
)
from penstock.codec.kernel_source.memory import u32
from penstock.codec.kernel_source.thresholds import DEPTH_MAX

if not cython.compiled:
    import re
    from itertools import accumulate as sums

    NO_BRACKETS = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[^\[\]{}"]++', re.DOTALL)
    NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
    STEPS = {OPEN_BRACKET: 1, OPEN_BRACE: 1, CLOSE_BRACKET: -1, CLOSE_BRACE: -1}

    def letters_end(p, at, end):
        while at < end and SPACE <= p[at] < ASCII_END and p[at] != QUOTE and p[at] != BACKSLASH:
            at += 1
        return at


def sizes(texts: list):
    """(total, largest) bytes of the texts; (-1, 0) when one is not a bytes object."""
    if not cython.compiled:
        if set(map(type, texts)) - {bytes}:
            return -1, 0
        return sum(map(len, texts)), max(map(len, texts), default=0)
    total: int64_t = 0
    largest: int64_t = 0
    size: int64_t
    for text in texts:
        if type(text) is not bytes:
            return -1, 0
        size = len(text)
        total += size
        if size > largest:
            largest = size
    return total, largest


def string_end(p, at, end):
    """Just behind the string whose first character is at `at`, or -1 when it does not end or has
    a character that is not plain."""
    at = letters_end(p, at, end)
    if at < end and p[at] == QUOTE:  # as nearly always
        return at + 1
    return escaped_string_end(p, at, end)


def escaped_string_end(p, at, end):
    """The same for a string with escapes."""
    c: cython.int
    while True:
        if at >= end:
            return -1
        c = p[at]
        if c == QUOTE:
            return at + 1
        if c != BACKSLASH:
            return -1
        at += 1
        if at >= end:
            return -1
        c = p[at]
        if c == LETTER_U:  # four digits, and no surrogate
            if end - at < 5 or not (
                is_hex(p[at + 1]) and is_hex(p[at + 2]) and is_hex(p[at + 3]) and is_hex(p[at + 4])
            ):
                return -1
            if p[at + 1] | LOWER_CASE == LETTER_D and p[at + 2] > SEVEN:
                return -1
            at += 4
        elif c not in (QUOTE, BACKSLASH, SLASH, LETTER_B, LETTER_F, LETTER_N, LETTER_R, LETTER_T):
            return -1
        at = letters_end(p, at + 1, end)


def is_hex(c):
    """Is it a hexadecimal digit?"""
    return ZERO <= c <= NINE or LETTER_A <= c | LOWER_CASE <= LETTER_F


def digits_end(p, at, end):
    """Just behind digits that begin at `at`, or -1 when there are none."""
    start: int64_t = at
    while at < end and ZERO <= p[at] <= NINE:
        at += 1
    return at if at > start else -1


def number_end(p, at, end):
    """Just behind the number that begins at `at`, or -1."""
    if p[at] == MINUS:
        at += 1
    if at < end and p[at] == ZERO:
        at += 1
    else:
        at = digits_end(p, at, end)
        if at < 0:
            return -1
    if at < end and p[at] == DOT:
        at = digits_end(p, at + 1, end)
        if at < 0:
            return -1
    if at < end and p[at] | LOWER_CASE == LETTER_E:
        at += 1
        if at < end and (p[at] == PLUS or p[at] == MINUS):
            at += 1
        at = digits_end(p, at, end)
    return at


def word_end(p, at, end):
    """Just behind true, false or null at `at`, or -1."""
    if end - at < 4:
        return -1
    if u32(p, at) == WORD_TRUE or u32(p, at) == WORD_NULL:
        return at + 4
    if end - at >= 5 and p[at] == LETTER_F and u32(p, at + 1) == WORD_ALSE:
        return at + 5
    return -1


def blanks_end(p, at, end):
    """Just behind the white space at `at`."""
    while (
        at < end
        and p[at] <= SPACE
        and (p[at] == SPACE or p[at] == LINE_FEED or p[at] == CARRIAGE_RETURN or p[at] == TAB)
    ):
        at += 1
    return at


def is_plain_json(p, at, end):
    """Is it one JSON value in ASCII, without white space around it, nested at most DEPTH_MAX deep?
    False also for escaped surrogates, which only a parser can pair."""
    return plain_value_end(p, at, end) == end


def plain_value_end(p, at, end):
    """Just behind the JSON value at `at`, or -1 when it is not plain, as in `is_plain_json`."""
    objects: uint64_t = 0  # one bit for each of the last 64 open brackets: is it an object's?
    outer: uint64_t = 0  # the same of the first 64, while more are open
    depth: int64_t = 0
    after: int64_t = 0  # 0: a value comes; 1: or its array ends; 2: a name or the end; 3: a name
    c: cython.int
    while True:
        if depth:
            at = blanks_end(p, at, end)
        if at >= end:
            return -1
        c = p[at]
        if after >= 2:
            if c == QUOTE:
                at = string_end(p, at + 1, end)
                if at < 0:
                    return -1
                at = blanks_end(p, at, end)
                if at >= end or p[at] != COLON:
                    return -1
                at = blanks_end(p, at + 1, end)
                if at >= end:
                    return -1
                c = p[at]
                after = 0
            elif c != CLOSE_BRACE or after == 3:
                return -1
        if after == 0 or (after == 1 and c != CLOSE_BRACKET):
            if c == QUOTE:
                at = string_end(p, at + 1, end)
            elif c == MINUS or ZERO <= c <= NINE:
                at = number_end(p, at, end)
            elif c in (OPEN_BRACE, OPEN_BRACKET):
                if depth == DEPTH_MAX:
                    return -1
                if depth == 64:
                    outer = objects
                depth += 1
                objects = (objects << 1) | (c == OPEN_BRACE)
                after = 2 if c == OPEN_BRACE else 1
                at += 1
                continue
            else:
                at = word_end(p, at, end)
            if at < 0:
                return -1
            if depth == 0:
                return at
            at = blanks_end(p, at, end)
            if at >= end:
                return -1
            c = p[at]
        # Behind a value, or at the end of an empty array or object.
        while c in (CLOSE_BRACKET, CLOSE_BRACE):
            if (c == CLOSE_BRACE) != (objects & 1):
                return -1
            objects >>= 1
            depth -= 1
            if depth == 64:
                objects = outer
            at += 1
            if depth == 0:
                return at
            at = blanks_end(p, at, end)
            if at >= end:
                return -1
            c = p[at]
        if c != COMMA:
            return -1
        at += 1
        after = 3 if objects & 1 else 0


def are_plain_json(texts: list):
    """Is each text one plain JSON value, as in `is_plain_json`?"""
    size: int64_t
    for text in texts:
        if type(text) is not bytes:
            raise TypeError(f"a text is {type(text).__name__}, not bytes")
        size = len(text)
        if cython.compiled:
            if not is_plain_json(cython.cast(ReadPointer, PyBytes_AS_STRING(text)), 0, size):
                return False
        elif not is_plain_json(text, 0, size):
            return False
    return True


def is_plain_text(text):
    """The same for one text; False when it is not a bytes object."""
    if type(text) is not bytes:
        return False
    if cython.compiled:
        return is_plain_json(
            cython.cast(ReadPointer, PyBytes_AS_STRING(text)), 0, PyBytes_GET_SIZE(text)
        )
    return is_plain_json(text, 0, len(text))


if not cython.compiled:

    def brackets_of(text):
        """The brackets outside of strings, up to a string that does not end."""
        if b"\\" in text:
            return NO_BRACKETS.sub(b"", text).partition(b'"')[0]
        return b"".join(text.split(b'"')[::2]).translate(None, NOT_BRACKETS)

    def is_deep(text, most):
        if text.count(b"[") + text.count(b"{") <= most:
            return False
        brackets = inner = brackets_of(text)
        for _ in range(min(8, most // 2)):  # the innermost go, at most two levels at once
            inner = inner.replace(b"[]", b"").replace(b"{}", b"")
        return bool(inner) and max(sums(map(STEPS.__getitem__, brackets), initial=0)) > most


def nesting(text: bytes):
    """How deep a JSON text nests: the most arrays and objects that are open at once, so 0 for a
    scalar and 1 for `[]`. Brackets in strings do not count. The bytes need not be JSON."""
    if not cython.compiled:
        return max(sums(map(STEPS.__getitem__, brackets_of(text)), initial=0))
    size: int64_t = len(text)
    return nesting_of(cython.cast(ReadPointer, PyBytes_AS_STRING(text)), size, size)


def first_deep(texts: list, most: int64_t):
    """The index of the first text that nests deeper than `most`, or -1. Skips None, and texts of
    at most 2 * `most` bytes: as JSON, they cannot nest deeper."""
    i: int64_t
    size: int64_t
    for i in range(len(texts)):
        text = texts[i]
        if text is None:
            continue
        if not isinstance(text, bytes):
            raise TypeError(f"a text is {type(text).__name__}, not bytes")
        size = len(text)
        if size <= 2 * most:
            continue
        if cython.compiled:
            if nesting_of(cython.cast(ReadPointer, PyBytes_AS_STRING(text)), size, most) > most:
                return i
        elif is_deep(text, most):
            return i
    return -1
