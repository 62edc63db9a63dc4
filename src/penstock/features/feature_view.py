"""How a feature table is read: which part has which feature."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from penstock import limits
from penstock.errors import InvalidArgument, NotReady, SchemaMismatch
from penstock.feature_types import FeatureKey, FeatureKeyRow, FeaturePlace, FeatureScan
from penstock.features.event_decoder import fits
from penstock.features.names import nearest, shown
from penstock.features.table_part import KeyRow, TablePart
from penstock.features.table_plan import TablePlan
from penstock.projections.host import HostedProjection
from penstock.projections.projection import StateLost, Tail

_RETRY_MS: Final = 5_000
T = TypeVar("T")


class FeatureView:
    """Immutable; the parts are not. Safe from several threads."""

    def __init__(self, plan: TablePlan, tail: Tail, serves: Mapping[str, HostedProjection]) -> None:
        self.plan = plan
        self.tail = tail
        parts: dict[int, tuple[HostedProjection, list[str]]] = {}
        for name, held in serves.items():
            parts.setdefault(id(held), (held, []))[1].append(name)
        self.parts = [(held, tuple(names)) for held, names in parts.values()]
        self._names = [feature.name for feature in plan.features]
        # Their parts could not be made when they were registered.
        self._lacking = [name for name in self._names if name not in serves]

    def refresh(self, features: Sequence[str] | None, *, eventual: bool) -> None:
        """Make the parts that a read needs contain what was committed before."""
        for held, _ in self.chosen(features):
            if eventual:
                held.runner.check_ready()
            else:
                held.runner.read_own()

    def lag(self, features: Sequence[str] | None) -> int:
        """The records that a reader of these features would have to fold."""
        return max((held.runner.lag for held, _ in self.chosen(features)), default=0)

    @property
    def has_keys_on_disk(self) -> bool:
        return any(part_of(held).keys_on_disk for held, _ in self.parts)

    def is_quick(self, key: FeatureKey) -> bool:
        """Is the row of this key read without the disk?"""
        values = self.key_values(key)
        return all(_is_in_memory(held, values) for held, _ in self.parts)

    def row(self, key: FeatureKey, features: Sequence[str] | None, now_ms: int) -> dict[str, Any]:
        """The features of a key; empty for a key without events."""
        values = self.key_values(key)
        found: dict[str, Any] = {}
        for held, names in self.chosen(features):
            row = _row_of(held, values, now_ms, names)
            if row is not None:
                found |= row
        return {name: found[name] for name in self.names(features) if name in found}

    def row_at(
        self, seq: int, key: FeatureKey, features: Sequence[str], now_ms: int
    ) -> dict[str, Any] | None:
        """The same if it has all records up to this seq, and no others; else None."""
        values = self.key_values(key)
        found: dict[str, Any] = {}
        for held, names in self.chosen(features):
            with held.runner.lock:
                applied = held.runner.applied
                if applied is None or applied.seq != seq or part_of(held).counters["lost"]:
                    return None
                found |= _row_of(held, values, now_ms, names) or {}
        return {name: found[name] for name in features if name in found}

    def scan(
        self, after: int, most: int, features: Sequence[str] | None, now_ms: int
    ) -> FeatureScan:
        """The rows of the next keys of the first part, and where each part was."""
        if after < 0 or not 0 < most <= limits.FEATURE_SCAN_MAX:
            raise InvalidArgument(
                f"invalid page (after={after}, limit={most}): expected after >= 0 and limit "
                f"from 1 to {limits.FEATURE_SCAN_MAX}"
            )
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        places: list[FeaturePlace] = []
        found: list[KeyRow] = []
        following: int | None = None
        for held, names in self.chosen(features):
            with held.runner.lock:
                if not places:
                    page = partial(TablePart.scan, after=after, most=most, now_ms=now_ms)
                    found, following = _read(held, partial(page, features=names))
                else:
                    keys = [key for key, _ in found]
                    same = partial(TablePart.rows_in_place, keys=keys, now_ms=now_ms)
                    others = _read(held, partial(same, features=names))
                    found = list(zip(keys, others, strict=True))
                places.append(FeaturePlace(list(names), held.runner.applied))
            for key, row in found:
                if row is not None:
                    rows.setdefault(key, {}).update(row)
        shown = [FeatureKeyRow(list(key), row) for key, row in rows.items()]
        return FeatureScan(shown, places, now_ms, following)

    def chosen(
        self, features: Collection[str] | None
    ) -> list[tuple[HostedProjection, tuple[str, ...]]]:
        """The parts that have these features, or any. Raises NotReady if one has no part."""
        wanted = self.names(features)
        for name in self._lacking:
            if name in wanted:
                raise NotReady(
                    f"feature {name!r} of table {self.plan.name!r} has no state yet: it is made "
                    "with the next registration, or when the log is opened again",
                    retry_after_ms=_RETRY_MS,
                )
        if features is None:
            return self.parts
        picked = [
            (held, tuple(name for name in names if name in wanted)) for held, names in self.parts
        ]
        return [(held, names) for held, names in picked if names]

    def names(self, features: Collection[str] | None) -> list[str]:
        """These features, checked, or all."""
        if features is None:
            return self._names
        if isinstance(features, str):
            raise InvalidArgument(f"features is {shown(features)}: expected a list of names")
        for name in features:
            if name not in self._names:
                raise SchemaMismatch(
                    f"table {self.plan.name!r} has no feature {shown(name)}; "
                    f"{nearest(name, self._names)}",
                    table=self.plan.name,
                    feature=str(name),
                )
        return list(features)

    def key_values(self, key: FeatureKey) -> tuple[Any, ...]:
        """The key as one value for each key column, checked."""
        plan = self.plan
        values = () if key is None else tuple(key) if isinstance(key, (list, tuple)) else (key,)
        if len(values) != len(plan.key):
            columns = ", ".join(plan.key) or "none"
            raise SchemaMismatch(
                f"table {plan.name!r} has {len(plan.key)} key columns ({columns}): "
                f"{shown(key)} has {len(values)} values",
                table=plan.name,
                value=key,
            )
        for name, kind, value in zip(plan.key, plan.key_types, values, strict=True):
            if value is None or not fits(kind, value):
                raise SchemaMismatch(
                    f"table {plan.name!r}: key {name!r} is {shown(value)}, expected {kind}",
                    table=plan.name,
                    field=name,
                    value=value,
                )
        return values

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` when the topic changes, on a thread of the log: it must not wait. Call
        the result to end that."""
        self.tail.listen(listener)
        return lambda: self.tail.unlisten(listener)


def _row_of(
    held: HostedProjection, key: tuple[Any, ...], now_ms: int, names: Sequence[str]
) -> dict[str, Any] | None:
    return _read(held, lambda part: part.row(key, now_ms, names))


def _read(held: HostedProjection, read: Callable[[TablePart], T]) -> T:
    """What is read may be on disk. If it is damaged there, the part is folded again."""
    runner = held.runner
    with runner.lock:
        try:
            return read(part_of(held))
        except StateLost as error:
            not_ready = runner.lose_state(str(error))
        except (OSError, MemoryError) as error:
            raise runner.fail(f"{type(error).__name__}: {error}") from error
    held.changed()
    raise not_ready


def _is_in_memory(held: HostedProjection, key: tuple[Any, ...]) -> bool:
    """Does reading and folding this key leave the disk alone?"""
    with held.runner.lock:
        part = part_of(held)
        return not part.keys_on_disk or (not held.runner.lag and part.is_in_memory(key))


def part_of(held: HostedProjection) -> TablePart:
    """The state of a part. Under the runner's lock."""
    part = held.runner.projection
    if not isinstance(part, TablePart):
        raise TypeError(f"{type(part).__name__} is not the part of a feature table")
    return part
