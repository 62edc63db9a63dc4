"""Symbols that are sent once and named by number, and numbers that nobody sent."""

from __future__ import annotations

import pytest

from penstock.compat.qwp import symbol_dictionary
from penstock.compat.qwp.byte_reader import QwpError, QwpStatus
from penstock.compat.qwp.codec import QwpDecoder
from tests.support import qwp
from tests.support.qwp import Block, Column, message


def refused(data: bytes, decoder: QwpDecoder | None = None) -> QwpError:
    with pytest.raises(QwpError) as caught:
        (decoder or QwpDecoder()).decode(data)
    return caught.value


def test_symbols_stay_with_the_connection() -> None:
    decoder = QwpDecoder()
    symbols = Block("t", [Column("s", qwp.SYMBOL, [0, 1])])
    decoder.decode(message(symbols=(0, ["a"])))
    decoder.decode(message(symbols=(0, ["a", "b"])))  # once more, and one that is new

    (table,) = decoder.decode(message(symbols, symbols=(2, []))).tables

    assert table.rows == [b'{"s":"a"}', b'{"s":"b"}']


def test_a_gap_in_the_symbols_has_a_status_of_its_own() -> None:
    decoder = QwpDecoder()
    decoder.decode(message(symbols=(0, ["a"])))

    assert refused(message(symbols=(2, ["c"])), decoder).status is QwpStatus.GAP


def test_symbols_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "too many" in str(refused(message(symbols=(0, []))[:-1] + b"\x7f"))
    monkeypatch.setattr(symbol_dictionary, "SYMBOLS_MAX", 2)
    assert "too many" in str(refused(message(symbols=(0, ["a", "b", "c"]))))
    monkeypatch.setattr(symbol_dictionary, "SYMBOLS_BYTES_MAX", 5)
    assert "more than 5 bytes" in str(refused(message(symbols=(0, ["aaaaaaa"]))))


def test_symbols_that_are_registered_again_are_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(symbol_dictionary, "SYMBOLS_BYTES_MAX", 6)
    decoder = QwpDecoder()
    for _ in range(3):
        decoder.decode(message(symbols=(0, ["aé", "b"])))
    decoder.decode(message(symbols=(1, ["ccc"])))  # another in its place: three bytes, not one
    decoder.decode(message(symbols=(0, ["aé"])))

    assert "more than 6 bytes" in str(refused(message(symbols=(2, ["d"])), decoder))


def test_a_number_without_a_symbol_is_refused() -> None:
    assert symbol_dictionary.resolve([1, 0, 1], ["a", "b"]) == ["b", "a", "b"]

    with pytest.raises(QwpError, match="out of range: 2 of 2"):
        symbol_dictionary.resolve([0, 2], ["a", "b"])
