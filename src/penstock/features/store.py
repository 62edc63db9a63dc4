"""The feature store of a log: register, push, get.

It holds what is registered and leaves the state to parts (`table_part`), each of which the
projection host keeps up to date.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from penstock import forks, limits
from penstock.errors import (
    InvalidArgument,
    NotReady,
    PenstockError,
    SchemaMismatch,
    TableNotFound,
)
from penstock.feature_document import document_of
from penstock.feature_types import (
    FeatureError,
    FeatureKey,
    FeatureLoaded,
    FeatureRead,
    FeatureScan,
    FeatureTableState,
    FeatureTableStatus,
    Pushed,
    PushSync,
    Registered,
)
from penstock.features import as_of, feature_status, registry, snapshot_load
from penstock.features.definition import Definition
from penstock.features.definition_diff import check_changes, differences
from penstock.features.event_push import EventPush
from penstock.features.feature_log import FeatureLog
from penstock.features.feature_reads import error_of, read_of
from penstock.features.feature_view import FeatureView
from penstock.features.ids_under_way import IdsUnderWay
from penstock.features.memory_shares import MemoryShares
from penstock.features.names import nearest, shown
from penstock.features.part_plan import PartSpec, TableShape, is_current, is_settled, serving
from penstock.features.store_projections import (
    empty_index,
    empty_part,
    plan_of,
    reconcile_indexes,
)
from penstock.projections import state_folder
from penstock.projections.host import ProjectionHost

PART: Final = "features"
DEDUPE: Final = "dedupe"
_WAIT_STEP_S: Final = 0.02
_RETRY_MS: Final = 5_000


class FeatureStore:
    """Safe from several threads. `_lock` guards registrations; reads take no lock of the store."""

    def __init__(
        self, host: ProjectionHost, log: FeatureLog, bytes_max: int = limits.FEATURE_BYTES_MAX
    ) -> None:
        self._host = host
        self._log = log
        self._shares = MemoryShares(bytes_max)
        self._lock = threading.RLock()
        text = log.load_registry()
        self._registry = (
            registry.EMPTY
            if text is None
            else msgspec.json.decode(text, type=registry.FeatureRegistry)
        )
        self._definition = Definition.parse(bytes(self._registry.definition))
        self._views: dict[str, FeatureView] = {}  # of tables whose parts are all ready
        self._pushes: dict[str, EventPush] = {}
        self._under_way: dict[str, IdsUnderWay] = {}  # by topic
        self._shares.divide(self._definition.tables, self._registry.parts)
        host.register(PART, partial(empty_part, host, self._shares))
        host.register(DEDUPE, empty_index)
        self._owner_pid = forks.pid()
        self._reconcile()
        forks.add(self)

    # Registering.

    @property
    def version(self) -> int:
        """How many registrations changed something."""
        return self._registry.version

    @property
    def definition(self) -> Definition:
        return self._definition

    def register(
        self,
        *nodes: Any,
        dry_run: bool = False,
        force: bool = False,
        whole: bool = False,
        wait_s: float = 0.0,
    ) -> Registered:
        """Add nodes, or change those of the same names: declared events and tables, a Definition,
        or its JSON. With `whole` the nodes that are not named are removed. A change that loses
        state needs `force`; a `dry_run` shows what would change. New and changed features are
        folded from history in the background, for which this waits up to `wait_s`. Durable on
        return."""
        registered = self._log.uninterrupted(
            lambda: self._register(nodes, dry_run=dry_run, force=force, whole=whole)
        )
        if not wait_s or dry_run:
            return registered
        self.wait(wait_s)
        return msgspec.structs.replace(registered, tables=self._states())

    def _register(
        self, nodes: tuple[Any, ...], *, dry_run: bool, force: bool, whole: bool
    ) -> Registered:
        with self._lock:
            known = None if whole else self._definition
            wanted = Definition.parse(document_of(nodes), known=known)
            short = [
                event.topic
                for event in wanted.events.values()
                if self._log.lacks_records(event.topic)
            ]
            changes = differences(self._definition, wanted, short_topics=short)
            if changes and not force and not dry_run:
                check_changes(changes)
            if changes:
                new = registry.changed(self._registry, wanted)
                indexes = sum(event.dedupe is not None for event in wanted.events.values())
                self._host.check_room((PART, DEDUPE), len(new.parts) + indexes)
                if dry_run:
                    self._log.check_topics(wanted.topics)
                else:
                    self._change(new, wanted)
            return Registered(
                version=self.version,
                is_changed=bool(changes) and not dry_run,
                changes=[change.to_json() for change in changes],
                tables={name: self._state(name) for name in self._definition.tables},
                is_dry_run=dry_run,
            )

    def _change(self, new: registry.FeatureRegistry, wanted: Definition) -> None:
        self._log.create_topics(wanted.topics)
        self._log.save_registry(msgspec.json.encode(new))
        self._registry, self._definition = new, wanted
        self._reconcile()

    def wait(self, timeout_s: float) -> bool:
        """Return when every feature is read from its newest definition; false after a timeout, or
        when a table has failed."""
        deadline_s = self._log.clock.monotonic() + timeout_s
        pause = threading.Condition(threading.Lock())
        while True:
            self._host.upkeep()
            states = set(self._states().values())
            if states <= {"ready"}:
                return True
            if states <= {"ready", "failed"} or self._log.clock.monotonic() >= deadline_s:
                return False
            with pause:
                self._log.clock.wait(pause, _WAIT_STEP_S)

    def _reconcile(self) -> None:
        """Run the parts of the registry and no others. A crash between the record of a registration
        and this is repaired when the store is opened."""
        self._views, self._pushes = {}, {}
        parts = {part.id: part for part in self._registry.parts}
        self._shares.divide(self._definition.tables, parts.values())
        for held in self._host.all(PART):
            if held.definition.name not in parts:
                self._host.drop(PART, held.definition.name)
        for part in parts.values():
            options: dict[str, Any] = {"on_gap": self._definition.plan(part.table).on_gap}
            if self._host.find(PART, part.id) is not None:
                self._host.change(PART, part.id, **options)
                continue
            options["bytes_max"] = limits.TABLE_MEMORY_MAX  # its keys beyond its own bound: on disk
            topic = plan_of(part).event.topic
            self._host.create(PART, part.id, topic, bytes(part.definition), **options)
        reconcile_indexes(self._host, DEDUPE, self._definition.events.values())

    # Pushing.

    def push(
        self,
        event: str,
        data: Mapping[str, Any] | bytes | Sequence[Mapping[str, Any] | bytes],
        *,
        sync: PushSync | None = None,
    ) -> Pushed:
        """Append an event, or many, all or none. Every event is checked before: a wrong one raises
        SchemaMismatch and nothing is appended."""
        many = [data] if isinstance(data, (Mapping, bytes)) else list(data)
        return self.pusher(event).push(many, sync, self.version)

    def pusher(self, event: str) -> EventPush:
        """The checks of one event type, and its deduplication."""
        found = self._pushes.get(event)
        if found is None:
            with self._lock:  # two would not see each other's ids, nor a registration
                found = self._pushes.get(event)
                if found is None:
                    found = self._pushes[event] = self._new_push(event)
        return found

    def _new_push(self, event: str) -> EventPush:
        declared = self._definition.events.get(event)
        if declared is None:
            raise SchemaMismatch(self._no_event(event), event=event)
        index = None if declared.dedupe is None else self._host.find(DEDUPE, event)
        if declared.dedupe is not None and index is None:
            raise NotReady(
                f"event {event!r} has no index of ids yet: it is made with the next registration, "
                "or when the log is opened again",
                retry_after_ms=_RETRY_MS,
            )
        topic = declared.topic
        under_way = self._under_way.setdefault(topic, IdsUnderWay(partial(self._log.flush, topic)))
        return EventPush(declared, self._log, index, under_way)

    def _no_event(self, event: str) -> str:
        if event in self._definition.derived:
            return f"event {event!r} is derived: push to the event that it is derived from"
        return f"unknown event {shown(event)}; {nearest(event, self._definition.events)}"

    def _no_table(self, table: str) -> TableNotFound:
        return TableNotFound(table, nearest(table, self._definition.tables))

    # Reading.

    def get(
        self,
        table: str,
        key: FeatureKey = None,
        features: Sequence[str] | None = None,
        *,
        as_of_seq: int | None = None,
        as_of_ts: int | None = None,
        eventual: bool = False,
    ) -> dict[str, Any]:
        """The features of a key, now; an empty row for a key without events. It contains every
        event committed before this call, unless `eventual` is true. `as_of_seq` and `as_of_ts` fold
        the history up to that place instead; HistoryGone: a part of it is gone."""
        view = self.view(table)
        if as_of_seq is not None or as_of_ts is not None:
            seq, now_ms = as_of.place(self._log, view, as_of_seq, as_of_ts)
            return as_of.row(view, key, features, seq, now_ms)
        view.refresh(features, eventual=eventual)
        return view.row(key, features, self._log.clock.now_ms())

    def batch_get(
        self, reads: Iterable[FeatureRead | tuple[Any, ...]], *, eventual: bool = False
    ) -> list[dict[str, Any] | FeatureError]:
        """Several rows, all as of one time. A read that fails has an error in its place."""
        now_ms = self._log.clock.now_ms()
        return [self._row_or_error(read_of(one), now_ms, eventual) for one in reads]

    def is_quick(self, reads: Iterable[FeatureRead], records_max: int) -> bool:
        """Are these rows read without folding more records than this, and without the disk?"""
        left = records_max
        views: dict[str, FeatureView] = {}
        for read in reads:
            try:
                view = views.get(read.table)
                if view is None:
                    view = views[read.table] = self.view(read.table)
                    left -= view.lag(None)
                if left < 0 or (view.has_keys_on_disk and not view.is_quick(read.key)):
                    return False
            except PenstockError:  # which is the answer to that read
                continue
        return True

    def push_and_get(
        self,
        event: str,
        data: Mapping[str, Any] | bytes | Sequence[Mapping[str, Any] | bytes],
        reads: Iterable[FeatureRead | tuple[Any, ...]],
        *,
        sync: PushSync | None = None,
    ) -> tuple[Pushed, list[dict[str, Any] | FeatureError]]:
        """Push, then read rows that contain what was pushed."""
        pushed = self.push(event, data, sync=sync)
        return pushed, self.batch_get(reads)

    def _row_or_error(
        self, read: FeatureRead, now_ms: int, eventual: bool
    ) -> dict[str, Any] | FeatureError:
        try:
            view = self.view(read.table)
            view.refresh(read.features, eventual=eventual)
            return view.row(read.key, read.features, now_ms)
        except PenstockError as error:
            return error_of(error)

    def watch(
        self,
        table: str,
        key: FeatureKey = None,
        features: Sequence[str] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The row of a key now, and again after each commit that changes it. What time alone
        changes, as when a window moves on, shows with the next event. Ends after `timeout_s`
        without a change."""
        view = self.view(table)
        wake = threading.Condition(threading.Lock())
        is_changed = True

        def changed() -> None:
            nonlocal is_changed
            with wake:
                is_changed = True
                wake.notify_all()

        end = view.on_change(changed)
        last: dict[str, Any] | None = None
        try:
            while True:
                with wake:
                    while not is_changed:
                        if not self._log.clock.wait(wake, timeout_s) and not is_changed:
                            return
                    is_changed = False
                row = self.get(table, key, features)
                if row != last:
                    last = row
                    yield row
        finally:
            end()

    def scan(
        self,
        table: str,
        after: int = 0,
        limit: int = 1000,
        *,
        features: Sequence[str] | None = None,
        now_ms: int | None = None,
    ) -> FeatureScan:
        """Many rows, a page at a time: all of the moment `now_ms`, by default now. The next page
        begins at `next_after`. A key that is there all the time is in one page. Cursors end with
        the process that has the log open."""
        view = self.view(table)
        view.refresh(features, eventual=False)
        now_ms = self._log.clock.now_ms() if now_ms is None else now_ms
        return view.scan(after, limit, features, now_ms)

    def load(self, table: str, folder: str) -> FeatureLoaded:
        """Replace the state of a table by a snapshot of the same table and log, which Spark built
        from a longer history. What came after it is folded first; until then, and after an error,
        the table is read as it was. Durable on return."""
        self.view(table)
        snapshot = state_folder.load(self._host.fs, folder)
        with self._lock:
            shape = self._definition.shape(table)
            parts = [part for part in self._registry.parts if part.table == table]
            parts = [part for part in parts if is_current(part, shape)]
        held = {part.id: found for part in parts if (found := self._host.find(PART, part.id))}

        def narrow(lacking: Mapping[str, Collection[str]]) -> None:
            self._log.uninterrupted(lambda: self._narrow(table, shape, lacking))

        return snapshot_load.load(table, shape, parts, held, snapshot, narrow)

    def _narrow(
        self, table: str, shape: TableShape, lacking: Mapping[str, Collection[str]]
    ) -> None:
        with self._lock:
            if self._definition.tables.get(table) is None or (
                self._definition.shape(table) != shape
            ):
                raise InvalidArgument(f"table {table!r} was changed meanwhile: load it again")
            new = registry.narrowed(self._registry, lacking)
            self._log.save_registry(msgspec.json.encode(new))
            self._registry = new
            self._shares.divide(self._definition.tables, new.parts)

    def view(self, table: str) -> FeatureView:
        """How a table is read at the moment."""
        found = self._views.get(table)
        if found is not None:
            return found
        return self._log.uninterrupted(lambda: self._view(table))

    def _view(self, table: str) -> FeatureView:
        with self._lock:
            if table not in self._definition.tables:
                raise self._no_table(table)
            shape = self._definition.shape(table)
            parts = [part for part in self._registry.parts if part.table == table]
            ready = [part.id for part in parts if self._is_ready(part)]
            # What no ready part has is read from its newest part, whose reader then folds it.
            serves = serving(parts, shape, table, [part.id for part in parts])
            serves |= serving(parts, shape, table, ready)
            plan = self._definition.plan(table)
            held = {name: self._host.find(PART, part.id) for name, part in serves.items()}
            view = FeatureView(
                plan,
                self._log.tail(plan.event.topic),
                {name: one for name, one in held.items() if one is not None},
            )
            self._drop_superseded(table, shape, ready)
            if is_settled(parts, shape, table, ready):
                self._views[table] = view
            return view

    def _is_ready(self, part: PartSpec) -> bool:
        held = self._host.find(PART, part.id)
        return held is not None and held.runner.is_ready

    def _drop_superseded(self, table: str, shape: TableShape, ready: list[str]) -> None:
        """Changed features are read from their new parts now: remove the old ones. In a log that
        cannot be written any more they stay until it is opened again."""
        new = registry.without_superseded(self._registry, table, shape, ready)
        if new is self._registry:
            return
        gone = {part.id for part in self._registry.parts} - {part.id for part in new.parts}
        with contextlib.suppress(PenstockError):
            self._log.save_registry(msgspec.json.encode(new))
            self._registry = new
            for part in gone:
                self._host.drop(PART, part)

    def _states(self) -> dict[str, FeatureTableState]:
        """Of all tables of one registration."""

        def look() -> dict[str, FeatureTableState]:
            with self._lock:
                return {name: self._state(name) for name in self._definition.tables}

        return self._log.uninterrupted(look)

    def _state(self, table: str) -> FeatureTableState:
        """Under the lock."""
        self._view(table)  # which may be the first to see that new parts are ready
        return feature_status.state_of(
            [self._host.find(PART, part.id) for part in self._registry.parts if part.table == table]
        )

    def leave_to_parent(self) -> None:
        """In a forked child: another thread may have held the lock."""
        left = forks.LeftToParent("log", self._owner_pid)
        self.__dict__.update(dict.fromkeys(self.__dict__, left))

    # Looking.

    def tables(self) -> list[FeatureTableStatus]:
        """All tables, sorted by name."""

        def look() -> list[FeatureTableStatus]:
            with self._lock:
                return [self._status(name) for name in sorted(self._definition.tables)]

        return self._log.uninterrupted(look)

    def table(self, name: str) -> FeatureTableStatus:
        """One table: its parts, their positions, and the watermarks of its events."""

        def look() -> FeatureTableStatus:
            with self._lock:
                return self._status(name)

        return self._log.uninterrupted(look)

    def _status(self, name: str) -> FeatureTableStatus:
        """Under the lock."""
        if name not in self._definition.tables:
            raise self._no_table(name)
        state = self._state(name)
        parts = [part for part in self._registry.parts if part.table == name]
        held = [(part, self._host.find(PART, part.id)) for part in parts]
        plan = self._definition.plan(name)
        ids = self._host.find(DEDUPE, plan.event.name)
        return feature_status.status_of(plan, state, held, ids, self._log)
