"""The share of each category among the events of a key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penstock.features import fold_kernel
from penstock.features.event_column import Bools, EventColumn, Int64s
from penstock.features.operators.chained_rows import ChainedRows
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import Arguments, OperatorKind, Parameter

CATEGORIES_MAX = 4096  # of one key
TEXT_BYTES = 80


class CategoryMix(ChainedRows):
    """Counts by category. A category is a text, which all keys share as a number.

    A number without a key is used again for another text.
    """

    def __init__(self, categories: Sequence[str], categories_max: int) -> None:
        super().__init__(ints=3, floats=1)
        self._allowed = frozenset(categories)
        self._categories_max = len(self._allowed) or categories_max
        self._codes: dict[str, int] = {}
        self._texts: list[str] = []
        self._uses = np.zeros(0, np.int64)  # how many keys have it, by code
        self._unused: list[int] = []

    def fold(self, fold: Fold) -> None:
        (field,) = fold.fields
        codes, added = self._codes_of(field, fold.passes)
        self.reserve(len(fold.rows))
        fold_kernel.chosen.fold_categories(
            fold.rows,
            fold.passes,
            field.is_present,
            codes,
            self._categories_max,
            self.keys,
            self.items,
            self.pool,
            self._uses,
        )
        self._drop_unused(added)

    def value(self, rows: Sequence[int], now_ms: int) -> dict[str, float]:
        for row in rows:
            _, found = self.items_of(np.array([row], np.int64))
            events = self.keys.item(row, 1)
            counts = {self._texts[code]: count for code, count, *_ in self.items[found].tolist()}
            return {text: counts[text] / events for text in sorted(counts)}
        return {}

    def clear(self, rows: Int64s) -> None:
        _, found = self.items_of(rows)
        codes = self.items[found, 0]
        np.subtract.at(self._uses, codes, 1)
        super().clear(rows)
        self._drop_unused(np.unique(codes).tolist())

    def save(self, rows: Int64s) -> Mapping[str, Any]:
        saved = dict(super().save(rows))
        saved["texts"] = [self._texts[code] for code in saved["items"][:, 0].tolist()]
        saved["items"][:, 0] = 0
        return saved

    def lengths(self, saved: Mapping[str, Any]) -> Mapping[str, Int64s]:
        return {**super().lengths(saved), "texts": saved["keys"][:, 0]}

    def load(self, rows: Int64s, saved: Mapping[str, Any]) -> None:
        texts = saved.get("texts")
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError("saved state 'texts': expected texts")
        super().load(rows, saved)
        _, found = self.items_of(rows)
        if len(texts) != len(found):
            raise ValueError(f"saved state 'texts': expected {len(found)} of them")
        codes = np.array([self._code_of(text) for text in texts], np.int64)
        self.items[found, 0] = codes
        np.add.at(self._uses, codes, 1)

    @property
    def bytes(self) -> int:
        return super().bytes + TEXT_BYTES * len(self._texts) + sum(map(len, self._codes))

    def _codes_of(self, column: EventColumn, passes: Bools) -> tuple[Int64s, list[int]]:
        """The number of each event's category, and numbers that may be new. -1: the category
        is not one of those to count."""
        codes = np.zeros(len(column), np.int64)
        if column.type == "str":
            missing = fold_kernel.chosen.find_codes(
                column.values, passes, column.is_present, self._codes, codes
            )
            for place in missing:
                codes[place] = self._code_or_none(column.values[place])
            return codes, codes[missing].tolist()
        wanted = passes & column.is_present
        found = column.values[wanted]
        if column.type == "f64":
            found = found + 0.0  # -0.0 is 0.0
        values, places = np.unique(found, return_inverse=True)
        known = [self._code_or_none(json.dumps(value)) for value in values.tolist()]
        codes[wanted] = np.array(known, np.int64)[places]
        return codes, known

    def _code_or_none(self, text: str) -> int:
        return self._code_of(text) if not self._allowed or text in self._allowed else -1

    def _code_of(self, text: str) -> int:
        code = self._codes.get(text)
        if code is not None:
            return code
        if self._unused:
            code = self._unused.pop()
            self._texts[code] = text
        else:
            code = len(self._texts)
            self._texts.append(text)
            if code >= len(self._uses):
                self._uses = np.concatenate([self._uses, np.zeros(code + 8, np.int64)])
        self._codes[text] = code
        return code

    def _drop_unused(self, codes: Sequence[int]) -> None:
        for code in codes:
            text = self._texts[code] if code >= 0 else ""
            if code >= 0 and not self._uses[code] and self._codes.get(text) == code:
                del self._codes[text]
                self._texts[code] = ""
                self._unused.append(code)


def _event_type_mix(arguments: Arguments) -> CategoryMix:
    return CategoryMix(arguments.parameters["categories"], arguments.parameters["max_categories"])


def _row_bytes(arguments: Arguments) -> int:
    allowed = len(arguments.parameters["categories"])
    return 32 + 48 * (allowed or int(arguments.parameters["max_categories"]))


KINDS = (
    OperatorKind(
        name="event_type_mix",
        summary="The share of each value among the events that have one, as an object. Values "
        "that are not in `categories`, and new values once there are `max_categories`, count only "
        "in the total.",
        fields=(("field", "scalar"),),
        parameters=(
            Parameter("categories", "texts", ()),
            Parameter("max_categories", "int", 256, minimum=1, maximum=CATEGORIES_MAX),
        ),
        window="none",
        output="json",
        make=_event_type_mix,
        row_bytes=_row_bytes,
    ),
)
