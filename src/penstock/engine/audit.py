"""The audit of administrative acts: an internal append-only topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.engine import read
from penstock.engine.batch import Batch
from penstock.engine.handle import Handle
from penstock.engine.internal_topics import AUDIT
from penstock.errors import PenstockError
from penstock.types import JsonPage

if TYPE_CHECKING:
    from penstock.engine.core import LogCore, Outcome

Act = dict[str, Any]
_encode = msgspec.json.Encoder().encode


class Audit:
    """Safe from several threads. Keeps the last million records, with class `disk`."""

    def __init__(self, core: LogCore) -> None:
        self._core = core

    def append(self, acts: Sequence[Act]) -> None:
        """Append acts, in their order."""
        self._core.append_to(self._core.catalogue.internal(AUDIT), False, _batch(acts))

    def submit(
        self,
        acts: Sequence[Act],
        done: Callable[[PenstockError | None], None],
        push: Callable[[Handle], None],
    ) -> bool:
        """The same without waiting; false when the topic has to be created first. `done` is called
        on a thread of the log, and `push` wakes the topic's shard, now or later."""
        handle = self._core.parts.handles.get(AUDIT.name)
        if handle is None:
            return False
        batch = _batch(acts)

        def resolved(outcome: Outcome) -> None:
            answer = self._core.answer(outcome, batch)
            done(answer if isinstance(answer, PenstockError) else None)

        self._core.submit_to(handle, batch, resolved, push=push)
        return True

    def read(self, after: int, limit: int) -> JsonPage:
        """The acts after seq `after`, oldest first, in the form of the HTTP API."""
        handle = self._core.parts.handles.get(AUDIT.name)
        if handle is None:
            return JsonPage(b"[]", 0, None, 0, 0, 1, True, 0)
        wanted = read.options(limit, None, None, is_wire=True)
        return read.read_json(handle, after, None, wanted)


def _batch(acts: Sequence[Act]) -> Batch:
    texts = [_encode(act) for act in acts]
    return Batch(texts, sum(map(len, texts)))
