"""The keyed tables of a log, as callers use them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, get_args

import msgspec

from penstock import limits
from penstock.clock import Clock
from penstock.codec.columns import ColumnsPage
from penstock.errors import InvalidArgument, TableExists, TableNotFound
from penstock.projection_types import (
    GapPolicy,
    TableChange,
    TableInfo,
    TableKey,
    TablePage,
    TableRow,
)
from penstock.projections import table_keys, tables
from penstock.projections.host import HostedProjection, ProjectionDefinition, ProjectionHost
from penstock.projections.table_keys import KeySource
from penstock.projections.tables import KeyedRecords, StoredValue, TableState
from penstock.types import Gap, Offset

_TEXT_PREFIX = table_keys.packed_text(b"") or b""
_ENTRIES_BYTES_MAX = limits.READ_BYTES_MAX


class StoredRows(NamedTuple):
    """Rows, whether there are more, what the table contained, and the number of all its rows."""

    rows: list[StoredValue]
    is_more: bool
    offset: Offset | None
    total: int


class KeyedTables:
    """Safe from several threads."""

    def __init__(self, host: ProjectionHost, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        host.register(tables.KIND, _empty)

    def create(
        self,
        name: str,
        topic: str,
        key: str,
        *,
        on_gap: GapPolicy | None = None,
        bytes_max: int | None = None,
    ) -> tuple[KeyedTable, bool]:
        """(the table, whether this call created it). An existing one keeps its topic and key; of
        the others what is named is changed. The names were checked. Durable on return."""
        source = KeySource(key)
        options = _checked(on_gap, bytes_max)
        found = self._host.find(tables.KIND, name)
        if found is None:
            definition = tables.definition_of(source)
            self._host.create(tables.KIND, name, topic, definition, **options)
            return KeyedTable(self._host, name, self._clock), True
        held = found.definition
        if (held.topic, _key_of(held)) != (topic, key):
            raise TableExists(
                f"table {name!r} exists with topic {held.topic!r} and key {_key_of(held)!r}: "
                "drop it first"
            )
        if options:
            self._host.change(tables.KIND, name, **options)
        return KeyedTable(self._host, name, self._clock), False

    def get(self, name: str) -> KeyedTable:
        table = KeyedTable(self._host, name, self._clock)
        table.check_exists()
        return table

    def all(self, prefix: str = "") -> list[KeyedTable]:
        """Sorted by name."""
        names = (held.definition.name for held in self._host.all(tables.KIND))
        return [
            KeyedTable(self._host, name, self._clock) for name in names if name.startswith(prefix)
        ]

    def drop(self, name: str) -> bool:
        """Remove a table; false when there is none. Its topic stays. Durable on return."""
        return self._host.drop(tables.KIND, name)


class KeyedTable:
    """The newest record of each key. Safe from several threads; every use raises TableNotFound
    once the table is dropped.

    Reads contain everything that was committed before the call. With `eventual` they take what is
    there at once. Before a table has read its topic for the first time, both raise NotReady when
    that would take long.
    """

    def __init__(self, host: ProjectionHost, name: str, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self.name = name

    def check_exists(self) -> None:
        self._held()

    @property
    def topic(self) -> str:
        return self._held().definition.topic

    @property
    def key(self) -> str:
        """The field of the data that has the key, or `tag`, or `node`."""
        return _key_of(self._held().definition)

    def get(self, key: TableKey, *, eventual: bool = False) -> TableRow | None:
        """The row of a key, or None. `1`, `"1"` and `True` are three keys."""
        found = self.stored(key, eventual=eventual)
        return None if found is None else _row(found)

    def stored(self, key: TableKey, *, eventual: bool = False) -> StoredValue | None:
        """The same with the value as its JSON text."""
        wanted = table_keys.checked(key)
        held = self._ready(eventual)
        with held.runner.lock:
            return _state(held).get(wanted)

    def scan(
        self,
        prefix: str = "",
        after: TableKey | None = None,
        limit: int = limits.READ_RECORDS_DEFAULT,
        *,
        eventual: bool = False,
    ) -> TablePage:
        """Rows past key `after`: those of text keys that begin with `prefix`, or all. In the order
        false, true, numbers, texts."""
        found = self.stored_rows(prefix, after, limit, eventual=eventual)
        rows = [_row(stored) for stored in found.rows]
        return TablePage(rows, rows[-1].key if found.is_more else None, found.offset, found.total)

    def stored_rows(
        self, prefix: str, after: TableKey | None, limit: int, *, eventual: bool = False
    ) -> StoredRows:
        """The same with the values as JSON texts."""
        if not isinstance(limit, int) or limit < 1:
            raise InvalidArgument(f"limit must be a positive number, not {limit!r}")
        start = table_keys.checked(prefix) if prefix else b""
        past = None if after is None else table_keys.checked(after)
        most = min(limit, limits.READ_RECORDS_MAX)
        held = self._ready(eventual)
        with held.runner.lock:
            state = _state(held)
            found, is_more = state.scan(start, past, most, _ENTRIES_BYTES_MAX)
            return StoredRows(found, is_more, held.runner.applied, state.count)

    def count(self, *, eventual: bool = False) -> int:
        """The number of rows."""
        held = self._ready(eventual)
        with held.runner.lock:
            return _state(held).count

    def info(self) -> TableInfo:
        """As of now, without waiting."""
        held = self._held()
        with held.runner.lock:
            state, definition = _state(held), held.definition
            return TableInfo(
                definition.name,
                definition.topic,
                _key_of(definition),
                definition.on_gap,
                definition.bytes_max,
                state.count,
                state.skipped,
                held.runner.status,
            )

    def rebuild(self) -> None:
        """Fold the topic again from its beginning, also after a failure."""
        self._held()
        self._host.rebuild(tables.KIND, self.name)

    # Changes.

    def watch(
        self, after: Offset | None = None, *, timeout_s: float | None = None
    ) -> Iterator[TableChange | Gap]:
        """Every change after `after` (the offset of a scan, or of a change; from now on without),
        then each new one when it is committed. Lost records are reported as `Gap`. Ends when the
        table or its topic is dropped, when the topic is created again, or after `timeout_s`
        without a change. Raises InvalidArgument when `after` is of an earlier topic of this name:
        scan again."""
        return self._watch(self._held(), self.start_of(after), timeout_s)

    def start_of(self, after: Offset | None) -> Offset:
        """Where a watch after `after` begins; checks it."""
        held = self._held()
        head = held.tail.head
        if after is None:
            return head or Offset(0, 0)
        if head is not None and after.epoch not in (0, head.epoch):
            raise InvalidArgument(
                f"topic {held.definition.topic!r} was created again since this offset: scan again"
            )
        return after

    def _watch(
        self, held: HostedProjection, after: Offset, timeout_s: float | None
    ) -> Iterator[TableChange | Gap]:
        wake_lock = threading.Lock()
        wake = threading.Condition(wake_lock)
        is_changed = True

        def changed() -> None:
            nonlocal is_changed
            with wake_lock:
                is_changed = True
                wake.notify_all()

        held.tail.listen(changed)
        try:
            while True:
                with wake_lock:
                    while not is_changed:
                        if not self._clock.wait(wake, timeout_s) and not is_changed:
                            return
                    is_changed = False
                if self._host.find(tables.KIND, self.name) is not held:
                    return
                page = self.changes(after)
                while page is not None:
                    records, offset, is_end = page
                    yield from records
                    after = offset
                    page = None if is_end else self.changes(after)
                head = held.tail.head
                if after.epoch and (head is None or head.epoch != after.epoch):
                    return
        finally:
            held.tail.unlisten(changed)

    def changes(
        self, after: Offset, limit: int = limits.READ_RECORDS_DEFAULT
    ) -> tuple[list[TableChange | Gap], Offset, bool] | None:
        """One page of a watch: (changes, the offset after them, whether there are no more now).
        None: the topic does not exist, or is another one."""
        held = self._held()
        records = KeyedRecords(KeySource(_key_of(held.definition)))
        page = held.tail.read_columns(after.seq, limit, records.wanted)
        if page is None or after.epoch not in (0, page.epoch):
            return None
        return list(_changes(records, page)), page.offset, page.caught_up

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when the topic changes, on a thread of the log: it must not wait. Call
        the result to end that."""
        tail = self._held().tail
        tail.listen(listener)
        return lambda: tail.unlisten(listener)

    def _held(self) -> HostedProjection:
        held = self._host.find(tables.KIND, self.name)
        if held is None:
            raise TableNotFound(self.name)
        return held

    def _ready(self, eventual: bool) -> HostedProjection:
        held = self._held()
        if eventual:
            held.runner.check_ready()
        else:
            held.runner.read_own()
        return held


def _empty(definition: ProjectionDefinition) -> TableState:
    return TableState(KeySource(_key_of(definition)))


def _key_of(definition: ProjectionDefinition) -> str:
    return str(msgspec.json.decode(definition.definition)["key"])


def _state(held: HostedProjection) -> TableState:
    state = held.runner.projection
    if not isinstance(state, TableState):
        raise TypeError(f"{type(state).__name__} is not the state of a table")
    return state


def _row(stored: StoredValue) -> TableRow:
    return TableRow(table_keys.unpacked(stored.key), _parsed(stored.value), stored.seq, stored.ts)


def _parsed(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError:  # numbers that JSON allows and the fast decoder does not
        return json.loads(text, parse_int=_any_int)


def _any_int(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # longer than Python's limit
        return digits


def _changes(records: KeyedRecords, page: ColumnsPage) -> Iterator[TableChange | Gap]:
    if page.gap is not None:
        yield page.gap
    for change in records.changes(page.columns):
        if change is not None:
            yield TableChange(
                key=table_keys.unpacked(change.key),
                value=None if change.value is None else _parsed(change.value),
                is_deleted=change.value is None,
                seq=change.seq,
                ts=change.ts,
                offset=Offset(page.epoch, change.seq),
            )


def _checked(on_gap: object, bytes_max: object) -> dict[str, Any]:
    """The options that were given."""
    given: dict[str, Any] = {}
    if on_gap is not None:
        if on_gap not in get_args(GapPolicy):
            raise InvalidArgument(
                f"on_gap must be one of {', '.join(get_args(GapPolicy))}, not {on_gap!r}"
            )
        given["on_gap"] = on_gap
    if bytes_max is not None:
        if not isinstance(bytes_max, int) or isinstance(bytes_max, bool) or bytes_max < 1:
            raise InvalidArgument(f"bytes_max must be a positive number, not {bytes_max!r}")
        given["bytes_max"] = bytes_max
    return given
