"""Feature stores with one rule broken at a time, to see that the rig notices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import msgspec

from penstock.append_options import NO_OPTIONS
from penstock.engine import batch as batches
from penstock.engine.feature_log import LogOfFeatures
from penstock.features.dedupe_index import DedupeIndex
from penstock.features.event_push import BegunPush, EventPush
from penstock.features.evicted_keys import EvictedKeys
from penstock.features.registry import FeatureRegistry
from penstock.features.store import FeatureStore
from penstock.features.table_part import TablePart

Patch = tuple[object, str, Callable[..., Any]]  # where, name, what instead


def _acknowledged_before_the_sync() -> list[Patch]:
    """A push that asks for its sync is answered when its events are written."""

    def append(self: LogOfFeatures, topic: str, texts: list[bytes], *, is_synced: bool) -> Any:
        batch = batches.prepare(texts, tag=None, node=None, key=None)
        return self._core.append(topic, batch, NO_OPTIONS)

    def sync(self: LogOfFeatures, topic: str, seq: int) -> None:
        pass

    return [(LogOfFeatures, "append", append), (LogOfFeatures, "sync", sync)]


def _duplicate_unsynced() -> list[Patch]:
    """A push whose events are all known is answered at once, though they were not synced yet."""
    ended, sync = EventPush.ended, LogOfFeatures.sync
    is_new = True

    def notes(self: EventPush, begun: BegunPush, appended: Any, version: int) -> Any:
        nonlocal is_new
        is_new = appended is not None
        return ended(self, begun, appended, version)

    def hasty(self: LogOfFeatures, topic: str, seq: int) -> None:
        if is_new:
            sync(self, topic, seq)

    return [(EventPush, "ended", notes), (LogOfFeatures, "sync", hasty)]


def _index_one_behind() -> list[Patch]:
    """The saved index of ids lacks the newest one."""
    snapshot = DedupeIndex.snapshot

    def behind(self: DedupeIndex) -> Iterator[bytes]:
        if not self._buckets or not self._buckets[-1].ids:
            return snapshot(self)
        ids = self._buckets[-1].ids
        newest = max(ids, key=lambda one: ids[one])
        seq = ids.pop(newest)
        parts = snapshot(self)
        ids[newest] = seq
        return parts

    return [(DedupeIndex, "snapshot", behind)]


def _operator_forgotten() -> list[Patch]:
    """The state of one feature is not restored."""
    restore = TablePart._restore_some

    def partial(self: TablePart, opened: Any, *others: Any) -> None:
        restore(self, opened, *others)
        forgotten = self._features.states.get("count")
        if forgotten is not None:
            forgotten.operator.clear(self._keys.slots())

    return [(TablePart, "_restore_some", partial)]


def _evicted_left_out() -> list[Patch]:
    """A saved state lacks the keys that are on disk."""
    snapshot = TablePart.snapshot

    def without(self: TablePart) -> Iterator[bytes]:
        memory = self.memory
        if memory is None:
            return snapshot(self)
        evicted = memory.evicted
        memory.evicted = EvictedKeys(evicted._folder, evicted.codec)
        try:
            return snapshot(self)
        finally:
            memory.evicted = evicted

    return [(TablePart, "snapshot", without)]


def _registry_after_its_parts() -> list[Patch]:
    """Parts come and go before the registration is recorded."""

    def change(self: FeatureStore, new: FeatureRegistry, wanted: Any) -> None:
        self._log.create_topics(wanted.topics)
        self._registry, self._definition = new, wanted
        self._reconcile()
        self._log.save_registry(msgspec.json.encode(new))

    return [(FeatureStore, "_change", change)]


def _time_forgotten() -> list[Patch]:
    """The largest time of all events is not restored."""

    def advance(self: TablePart, largest: int) -> None:
        pass

    return [(TablePart, "advance", advance)]


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "acknowledged before the sync": _acknowledged_before_the_sync,
    "duplicate unsynced": _duplicate_unsynced,
    "index one behind": _index_one_behind,
    "operator forgotten": _operator_forgotten,
    "evicted left out": _evicted_left_out,
    "registry after its parts": _registry_after_its_parts,
    "time forgotten": _time_forgotten,
}


def apply(name: str | None) -> None:
    """Break this process for good; None leaves it as it is."""
    for where, what, instead in MUTANTS[name]() if name else ():
        setattr(where, what, instead)


@contextlib.contextmanager
def mutated(name: str) -> Iterator[None]:
    """Break this process for a while."""
    with contextlib.ExitStack() as stack:
        for where, what, instead in MUTANTS[name]():
            stack.enter_context(mock.patch.object(where, what, instead))
        yield
