"""Holds an operator against a naive function over the list of events.

`check(kind, types, expected)` folds random events of several keys and compares every value. It also
checks what every operator promises: batches may be divided anywhere, both forms of the kernel leave
the same bits, saved state can be loaded into other rows, and cleared rows are empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from penstock.features import fold_kernel
from penstock.features.event_column import ColumnType, column_of
from penstock.features.operators.operator import Fold, Operator
from penstock.features.operators.operator_kind import Arguments, OperatorKind
from tests.support import requirements, seeds

START = 1_700_000_000_000
STEP_MS = 1_000  # between two events, at most
CELL_MS = 20_000
KEYS = 3


@dataclass(frozen=True, slots=True)
class Event:
    """An event as the oracle sees it."""

    ts: int
    passes: bool
    values: tuple[Any, ...]  # one for each field; None where there is none
    key: int = 0

    @property
    def value(self) -> Any:
        return self.values[0]


Expected = Callable[[Sequence[Event], int], Any]
"""From the events of one key that count, oldest cell first, and now_ms, to the value."""


def compiled_kernel() -> ModuleType:
    try:
        return fold_kernel.load(pure=False)
    except ImportError as error:
        requirements.lacking(f"the compiled kernel ({error})", "install a C compiler, `make setup`")


@contextmanager
def form(pure: bool) -> Iterator[None]:
    """Use one form of the kernel."""
    before = fold_kernel.chosen
    fold_kernel.chosen = fold_kernel.load(pure=True) if pure else compiled_kernel()
    try:
        yield
    finally:
        fold_kernel.chosen = before


def arguments_of(
    kind: OperatorKind, types: Sequence[ColumnType], window_ms: int | None, **parameters: Any
) -> Arguments:
    """With the defaults of parameters that are not given."""
    defaults = {parameter.name: parameter.default for parameter in kind.parameters}
    return Arguments(tuple(types), {**defaults, **parameters}, window_ms)


def made(
    kind: OperatorKind,
    types: Sequence[ColumnType] = (),
    window_ms: int | None = None,
    rows: int = 8,
    **parameters: Any,
) -> Operator:
    """An operator with room for a few rows."""
    operator = kind.make(arguments_of(kind, types, window_ms, **parameters))
    operator.grow(rows)
    return operator


def fold_of(rows: Sequence[int], events: Sequence[Event], types: Sequence[ColumnType]) -> Fold:
    """These events as a batch, each for its row."""
    return Fold(
        np.array(rows, np.int64),
        np.array([event.ts for event in events], np.int64),
        np.array([event.passes for event in events], np.bool_),
        tuple(
            column_of(type_, [event.values[number] for event in events])
            for number, type_ in enumerate(types)
        ),
    )


def events_of(*values: Any, step_ms: int = 1_000) -> list[Event]:
    """Events with one field, `step_ms` apart. They pass."""
    return [Event(START + step_ms * i, True, (value,)) for i, value in enumerate(values)]


def value_of(
    kind: OperatorKind,
    types: Sequence[ColumnType],
    events: Sequence[Event],
    now_ms: int | None = None,
    window_ms: int | None = None,
    **parameters: Any,
) -> Any:
    """The value of one row after these events."""
    operator = made(kind, types, window_ms, 1, **parameters)
    operator.fold(fold_of([0] * len(events), events, types))
    return operator.value([0], events[-1].ts if now_ms is None else now_ms)


def random_value(random: Random, type_: ColumnType) -> Any:
    match type_:
        case "i64":
            return random.choice([random.randint(-4, 4), random.randint(-(10**12), 10**12)])
        case "f64":
            return random.choice([float(random.randint(-3, 3)), random.uniform(-1e3, 1e3)])
        case "bool":
            return random.random() < 0.5
        case "str":
            return random.choice(["", "a", "b", "ä", "z" * 20])
        case "json":
            return random.choice([1, "1", [1, 2], [3, 4], {"a": [None]}, False])


def random_events(
    random: Random,
    types: Sequence[ColumnType],
    count: int = 150,
    *,
    is_in_order: bool = True,
    draw: Callable[[Random], tuple[Any, ...]] | None = None,
) -> list[Event]:
    """Events of KEYS keys; some fail their `where`, some lack a value. Out of order, times go back
    by up to two cells now and then."""
    events = []
    ts = START
    for _ in range(count):
        ts += random.choice([0, 1, random.randint(0, STEP_MS)])
        late = 0 if is_in_order or random.random() < 0.7 else random.randint(0, 2 * CELL_MS)
        drawn = draw(random) if draw else tuple(random_value(random, type_) for type_ in types)
        values = tuple(None if random.random() < 0.15 else value for value in drawn)
        events.append(Event(ts - late, random.random() < 0.75, values, random.randrange(KEYS)))
    return events


def check(
    kind: OperatorKind,
    types: Sequence[ColumnType],
    expected: Expected,
    *,
    window_ms: int | None = None,
    relative: float = 0.0,
    draw: Callable[[Random], tuple[Any, ...]] | None = None,
    is_in_order: bool = True,
    count: int = 150,
    **parameters: Any,
) -> None:
    """Random events of several keys. With a window a key has a row for each cell of CELL_MS, unless
    the operator honours its window by itself. Values may differ by `relative` if they are floats.
    """
    random = Random(seeds.new_seed())
    events = random_events(random, types, count, is_in_order=is_in_order, draw=draw)
    has_cells = window_ms is not None and not kind.is_self_windowed
    cells = sorted({(event.key, event.ts // CELL_MS if has_cells else 0) for event in events})
    row_of = dict(zip(cells, random.sample(range(2 * len(cells)), len(cells)), strict=True))
    rows = [row_of[event.key, event.ts // CELL_MS if has_cells else 0] for event in events]
    size = 2 * len(cells)

    def fresh() -> Operator:
        return made(kind, types, window_ms, size, **parameters)

    def folded(cuts: Sequence[int]) -> Operator:
        operator = fresh()
        for start, end in pairwise(cuts):
            operator.fold(fold_of(rows[start:end], events[start:end], types))
        return operator

    every = np.array([row_of[cell] for cell in cells], np.int64)
    whole = folded([0, count])
    state = whole.save(every)
    one_by_one = folded(range(count + 1))
    pieces = folded([0, *sorted(random.choices(range(count), k=5)), count])
    assert_same(state, one_by_one.save(every), "folded one by one")
    assert_same(state, pieces.save(every), "folded in other batches")
    for pure in (True, False):
        with form(pure):
            assert_same(state, folded([0, count // 2, count]).save(every), f"other form, {pure=}")

    copies = random.sample(range(size), len(cells))
    copy_of = dict(zip(cells, copies, strict=True))
    half = fresh()
    half.load(np.array(copies, np.int64), folded([0, count // 2]).save(every))
    moved = [copy_of[event.key, event.ts // CELL_MS if has_cells else 0] for event in events]
    half.fold(fold_of(moved[count // 2 :], events[count // 2 :], types))
    assert_same(state, half.save(np.array(copies, np.int64)), "saved, loaded and continued")

    for key in range(KEYS):
        own = [cell for cell in cells if cell[0] == key]
        for first in range(len(own)):  # as the window moves on, older cells no longer count
            live = own[first:]
            numbers = {cell[1] for cell in live}
            counted = [
                event
                for event in sorted(events, key=lambda e: e.ts // CELL_MS if has_cells else 0)
                if event.key == key and (not has_cells or event.ts // CELL_MS in numbers)
            ]
            now_ms = max(event.ts for event in events) + random.randint(0, STEP_MS)
            want = expected(counted, now_ms)
            for operator, of in ((whole, row_of), (half, copy_of)):
                got = operator.value([of[cell] for cell in live], now_ms)
                assert_value(got, want, relative)
    assert_same(state, whole.save(every), "values were read")

    gone, kept = every[::2], every[1::2]
    rest = whole.save(kept)
    whole.clear(gone)
    now_ms = START + 10**6
    assert whole.value(gone.tolist()[:1], now_ms) == fresh().value([0], now_ms)
    assert_same(rest, whole.save(kept), "other rows were cleared")
    assert_same(fresh().save(gone), whole.save(gone), "cleared")
    assert whole.bytes > 0


def assert_value(got: Any, want: Any, relative: float = 0.0) -> None:
    """Same type and value."""
    assert type(got) is type(want), (got, want)
    if relative and isinstance(want, (float, list, dict)):
        assert got == pytest.approx(want, rel=relative, abs=1e-9)
    else:
        assert got == want


def assert_same(one: Mapping[str, Any], other: Mapping[str, Any], why: str) -> None:
    """The same saved state, bit for bit."""
    assert plain(one) == plain(other), why


def plain(saved: Any) -> Any:
    """Saved state as values that can be compared: arrays by their bytes."""
    if isinstance(saved, np.ndarray):
        return str(saved.dtype), saved.shape, saved.tobytes()
    if isinstance(saved, Mapping):
        return {name: plain(value) for name, value in saved.items()}
    return [plain(value) for value in saved] if isinstance(saved, list) else saved


def split_mix(value: int) -> int:
    """The finalizer of SplitMix64 by its publication."""
    word = value % 2**64
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ word >> 27) * 0x94D049BB133111EB % 2**64
    return word ^ word >> 31


def algorithm_r(values: Sequence[Any], samples: int) -> list[Any]:
    """A value has a random place among all so far, and is kept if it is in the list."""
    kept: list[Any] = []
    for number, value in enumerate(values):
        place = number if number < samples else split_mix(number) % (number + 1)
        if place < samples:
            kept[place : place + 1] = [value]
    return kept
