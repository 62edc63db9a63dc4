"""The audit of administrative acts: an internal append-only topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from penstock.engine import read
from penstock.engine.batch import Batch
from penstock.engine.catalogue import Catalogue
from penstock.engine.handle import Handle
from penstock.engine.internal_topics import AUDIT
from penstock.engine.opening import LogContext
from penstock.types import Appended, JsonPage

_encode = msgspec.json.Encoder().encode


class Audit:
    """Safe from several threads. Keeps the last million records, with class `disk`."""

    def __init__(
        self,
        parts: LogContext,
        catalogue: Catalogue,
        append: Callable[[Handle, Batch], Appended],
    ) -> None:
        self._parts = parts
        self._catalogue = catalogue
        self._append = append

    def note(self, act: str, **fields: Any) -> None:
        """Append an act."""
        text = _encode({"act": act, **fields})
        self._append(self._catalogue.internal(AUDIT), Batch([text], len(text)))

    def read(self, after: int, limit: int) -> JsonPage:
        """The acts after seq `after`, oldest first, in the form of the HTTP API."""
        handle = self._parts.handles.get(AUDIT.name)
        if handle is None:
            return JsonPage(b"[]", 0, None, 0, 0, 1, True, 0)
        wanted = read.options(limit, None, None, is_wire=True)
        return read.read_json(handle, after, None, wanted)
