"""`get`, `batch_get` and the older reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from penstock.compat.beava import bodies
from penstock.compat.beava.keys import BadKey, key_of
from penstock.compat.beava.replies import BeavaError
from penstock.errors import InvalidArgument, NotReady, PenstockError
from penstock.feature_types import FeatureError, FeatureRead
from penstock.server.adapters import FeatureService

Row = dict[str, Any]
_LOOP_READS_MAX: Final = 256


class Reader:
    """Event loop only."""

    def __init__(self, features: FeatureService) -> None:
        self._features = features

    async def get(self, body: bodies.GetBody) -> Row:
        """The row of one key; empty for a key without events."""
        read = self._read(body.table, body.key, body.features)
        return await self._row(read)

    async def batch_get(self, body: bodies.BatchGetBody) -> dict[str, list[Row]]:
        """All rows as of one time, which is now. A wrong read has an error in its place."""
        reads: list[FeatureRead] = []
        results: list[Row | None] = []
        for one in body.requests:
            try:
                reads.append(self._read(one.table, one.read_key, one.features))
                results.append(None)
            except BeavaError as error:
                results.append(_in_place(error.code, str(error.members.get("reason", ""))))
        rows = iter(await self._rows(reads))
        return {"results": [_row_or_error(next(rows)) if one is None else one for one in results]}

    async def feature(self, name: str, key: str) -> Row:
        """One feature by its name alone, or the row of a table of this name."""
        if name in self._features.store.definition.tables:
            row = await self._row(self._read(name, key, None))
            if not row:
                raise BeavaError(404, "key_not_found")
            return row
        read = self._read(self._home(name), key, [name])
        row = await self._row(read)
        if not row:
            raise BeavaError(404, "key_not_found")
        return {"value": row[name]}

    async def multi(self, features: Sequence[str], keys: Sequence[Any]) -> dict[str, Row]:
        """Features by their names alone, of several keys. A key without events is left out."""
        if len(features) * len(keys) > bodies.CELLS_MAX:
            raise BeavaError(
                400,
                "internal_error",
                reason=f"{len(features) * len(keys)} cells: expected at most {bodies.CELLS_MAX}",
            )
        by_table: dict[str, list[str]] = {}
        for name in features:
            by_table.setdefault(self._home(name), []).append(name)
        reads = [
            (str(key), self._read(table, key, names))
            for key in keys
            for table, names in by_table.items()
        ]
        rows = await self._rows([read for _, read in reads])
        found: dict[str, Row] = {}
        for (key, _), row in zip(reads, rows, strict=True):
            if isinstance(row, FeatureError):
                raise BeavaError(500, "internal_error", reason=row.message)
            if row:
                found.setdefault(key, {}).update(row)
        return found

    async def _rows(self, reads: Sequence[FeatureRead]) -> list[Row | FeatureError]:
        """Many rows are read on a thread: the loop has other clients."""
        if len(reads) <= _LOOP_READS_MAX:
            return await self._features.batch_get(reads)
        found: list[Row | FeatureError] = await self._features.run(
            self._features.store.batch_get, reads
        )
        return found

    def _home(self, feature: str) -> str:
        """The table that has this feature."""
        tables = self._features.store.definition.tables
        homes = [name for name, table in tables.items() if feature in table.features]
        if not homes:
            raise BeavaError(404, "feature_not_found", reason=_missing([feature]))
        if len(homes) > 1:
            raise BeavaError(
                400,
                "ambiguous_feature",
                reason=f"{feature!r} is a feature of {', '.join(homes)}: use POST /get",
            )
        return homes[0]

    def _read(self, table: str, key: Any, features: list[str] | None) -> FeatureRead:
        """A checked read."""
        definition = self._features.store.definition
        declared = definition.tables.get(table)
        if declared is None:
            raise BeavaError(
                404, "unknown_table", reason=f"table {table!r} is not a registered aggregation"
            )
        missing = [name for name in features or () if name not in declared.features]
        if missing:
            why = f"{_missing(missing)} table={table}"
            raise BeavaError(404, "feature_not_found", reason=why)
        try:
            types = definition.plan(table).key_types
            return FeatureRead(table, key_of(key, declared.key, types), features)
        except BadKey as error:
            raise BeavaError(404, "key_parse_failure", reason=str(error)) from None

    async def _row(self, read: FeatureRead) -> Row:
        try:
            return await self._features.get(read.table, read.key, read.features)
        except NotReady as error:
            raise BeavaError(503, "not_ready", reason=str(error)) from None
        except InvalidArgument as error:  # the table was changed in between
            raise BeavaError(404, "unknown_table", reason=str(error)) from None
        except PenstockError as error:
            raise BeavaError(500, "internal_error", reason=str(error)) from None


def _missing(names: list[str]) -> str:
    shown = ",".join(f'"{name}"' for name in names)
    return f"feature_not_found: missing=[{shown}]"


def _row_or_error(found: Row | FeatureError) -> Row:
    return _in_place(found.code, found.message) if isinstance(found, FeatureError) else found


def _in_place(code: str, message: str) -> Row:
    return {"error": {"code": code, "message": message}}
