"""The elements of a JSON array as records that stay in the buffer they came in.

Their table is that of `record_spans`; an element is the data of a record, without tag and node.
"""

from __future__ import annotations

from penstock.codec.kernel_source import cython_shim as cython
from penstock.codec.kernel_source.characters import CLOSE_BRACKET, COMMA, OPEN_BRACKET
from penstock.codec.kernel_source.json_text import blanks_end, plain_value_end
from penstock.codec.kernel_source.layout import SPAN_BYTES, SPAN_DATA, SPAN_DATA_LEN
from penstock.codec.kernel_source.memory import HeldBuffer, OutputBuffer, clear, put32
from penstock.codec.kernel_source.thresholds import JSON_ELEMENT_BYTES_MIN


def fill_element_spans(p, end, records_max, table, count):
    """Write the spans of the elements of the array p[0:end] into `table`, and their number into
    `count`. False when it is empty, too long or not plain."""
    start: int64_t
    row: int64_t
    at: int64_t = blanks_end(p, 0, end)
    if at >= end or p[at] != OPEN_BRACKET:
        return False
    while count[0] < records_max:
        start = blanks_end(p, at + 1, end)
        if start >= end:
            return False
        at = plain_value_end(p, start, end)
        if at < 0:
            return False
        row = SPAN_BYTES * count[0]
        clear(table, row, SPAN_BYTES)
        put32(table, row + SPAN_DATA, start)
        put32(table, row + SPAN_DATA_LEN, at - start)
        count[0] += 1
        at = blanks_end(p, at, end)
        if at >= end:
            return False
        if p[at] == CLOSE_BRACKET:
            return blanks_end(p, at + 1, end) == end
        if p[at] != COMMA:
            return False
    return False


def element_spans(body, records_max: int64_t):
    """(table, count) of the elements of a JSON array, each of them the data of a record.

    None when the body is not plain: it is not JSON in ASCII, no array, empty, or it has more than
    `records_max` elements.
    """
    source: HeldBuffer = HeldBuffer(body)
    size: int64_t = source.size
    if size >> 32:
        return None
    most: int64_t = max(0, min(records_max, size // JSON_ELEMENT_BYTES_MIN))
    table: OutputBuffer = OutputBuffer(SPAN_BYTES * most)
    if not cython.compiled:
        found = [0]
        if not fill_element_spans(source.at, size, most, table.at, found):
            return None
        return table.as_bytes()[: SPAN_BYTES * found[0]], found[0]
    count: int64_t = 0
    if not fill_element_spans(source.at, size, most, table.at, cython.address(count)):
        return None
    return table.owner[: SPAN_BYTES * count], count
