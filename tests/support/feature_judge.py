"""What a feature store must be after a crash: a fold of the records that its log has.

Every part of a table is compared bit by bit, every index of ids entry by entry, and every row. The
records are read again from the log, by projections that begin empty and have all the memory they
need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.engine.engine import Log
from penstock.features.dedupe_index import DedupeIndex
from penstock.features.feature_view import part_of
from penstock.features.store import DEDUPE, PART, FeatureStore
from penstock.features.store_projections import empty_index, index_definition
from penstock.features.table_part import TablePart
from penstock.projections.host import HostedProjection
from penstock.projections.projection import Projection, Tail
from penstock.types import Offset
from tests.support import feature_plans
from tests.unit.features.bounded_rig import pieces_of, states_of

_PAGE_RECORDS = 37


def folded(tail: Tail, state: Any, until: int = 1 << 62) -> Offset | None:
    """Fold the records of a topic up to a seq into an empty projection."""
    projection: Projection = state
    at: Offset | None = None
    while at is None or at.seq < until:
        after = 0 if at is None else at.seq
        page = tail.read_columns(after, min(_PAGE_RECORDS, until - after), projection.wanted)
        if page is None:
            return None
        if page.gap is not None:
            projection.lose(page.gap)
        if page.columns.count:
            projection.apply(page.columns)
        at = page.offset
        if page.caught_up:
            break
    return at


def ids_of(log: Log, topic: str) -> dict[int, str]:
    """The id of each record of a topic that has one, by seq."""
    if not any(info.name == topic for info in log.topics()):
        return {}
    found: dict[int, str] = {}
    after = 0
    while True:
        page = log.read(topic, after)
        for record in page.records:
            if isinstance(record.data, dict) and isinstance(one := record.data.get("id"), str):
                found[record.seq] = one
        if page.caught_up:
            return found
        after = page.next_seq


def judge_ids(ids: Iterable[str], topic: str) -> list[str]:
    twice = [one for one, count in Counter(ids).items() if count > 1]
    return [f"{topic}: ids are stored twice: {sorted(twice)[:5]}"] if twice else []


def judge_projections(log: Log, store: FeatureStore) -> list[str]:
    """The registry has its projections and no others, and each is what the log says."""
    host = log.projections
    wanted = {part.id: bytes(part.definition) for part in store._registry.parts}
    found = {held.definition.name: bytes(held.definition.definition) for held in host.all(PART)}
    wrong = [] if found == wanted else [f"parts are {sorted(found)} and not {sorted(wanted)}"]
    events = [event for event in store.definition.events.values() if event.dedupe is not None]
    indexes = {event.name: index_definition(event) for event in events}
    known = {held.definition.name: bytes(held.definition.definition) for held in host.all(DEDUPE)}
    if known != indexes:
        wrong.append(f"indexes are {known} and not {indexes}")
    for held in host.all(PART):
        wrong += _judge_part(held)
    for held in host.all(DEDUPE):
        wrong += _judge_index(held)
    return wrong


def _judge_part(held: HostedProjection) -> list[str]:
    held.runner.read_own()
    plan = feature_plans.plan_of(held.definition)
    part, fresh = part_of(held), TablePart(plan)
    folded(held.tail, fresh)
    found = states_of(TablePart(plan), pieces_of(part))
    wanted = states_of(TablePart(plan), pieces_of(fresh))
    name = held.definition.name
    wrong = []
    if found != wanted:
        keys = [key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)]
        wrong.append(f"part {name}: {len(keys)} of {len(wanted)} keys differ, such as {keys[0]!r}")
    if part.counters != fresh.counters:
        wrong.append(f"part {name}: counts are {part.counters} and not {fresh.counters}")
    if part.largest_time != fresh.largest_time:
        wrong.append(f"part {name}: time is {part.largest_time} and not {fresh.largest_time}")
    return wrong


def _judge_index(held: HostedProjection) -> list[str]:
    held.runner.read_own()
    fresh = empty_index(held.definition)
    folded(held.tail, fresh)
    found = held.runner.projection
    if not isinstance(found, DedupeIndex):
        raise TypeError(f"{type(found).__name__} is no index of ids")
    if list(found._buckets) != list(fresh._buckets):
        differing = ids_in(found) ^ ids_in(fresh)
        return [f"index {held.definition.name}: these ids differ: {sorted(differing)[:5]}"]
    return []


def ids_in(index: DedupeIndex) -> set[tuple[object, int]]:
    return {pair for bucket in index._buckets for pair in bucket.ids.items()}


def judge_rows(store: FeatureStore) -> list[str]:
    """The rows that readers get."""
    wrong = []
    store.wait(0)
    for table in store.definition.tables:
        plan = store.definition.plan(table)
        fresh = TablePart(plan)
        folded(store._log.tail(plan.event.topic), fresh)
        now_ms = store._log.clock.now_ms()
        for key in feature_plans.keys_of(table):
            columns = key if isinstance(key, tuple) else (key,)
            found, wanted = store.get(table, key or None), fresh.row(columns, now_ms) or {}
            if msgspec.json.encode(found) != msgspec.json.encode(wanted):
                names = [name for name in wanted if found.get(name) != wanted[name]]
                wrong.append(f"row {table} {key}: {names[:3]} differ, or all are missing")
                break
    return wrong
