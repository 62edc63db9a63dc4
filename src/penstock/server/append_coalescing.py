"""Plain appends of one turn of the loop, submitted together.

The main cost of a small append is not its bytes but its commit: numbering, a queue entry, a
callback from the log's thread. Appends without a key, a tag or a condition that reach a topic
within one turn of the loop therefore become one batch of the log, and its answer is divided among
them. Each append gets the seqs that it would have got alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Protocol

from penstock.engine.batch import Batch, RecordSpans
from penstock.engine.core import LogCore, Outcome
from penstock.engine.handle import Handle
from penstock.errors import Overloaded
from penstock.server.appends import Answer, is_plain
from penstock.server.loop_bridge import Bridge
from penstock.types import Appended
from penstock.wire.models import WriteOptions

_RECORDS_MAX: Final = 2_000
_BYTES_MAX: Final = 256 * 1024
_MEMBER_BYTES_MAX: Final = 64 * 1024  # a larger append gains nothing by company

_Member = tuple[Batch, WriteOptions, Callable[[Answer], None]]
_log = logging.getLogger("penstock.server")


class RunTarget(Protocol):
    """The part of the service that runs use."""

    bridge: Bridge

    @property
    def core(self) -> LogCore: ...

    def submit_run(self, run: AppendRun) -> None:
        """Pass the appends of one turn to the log, as one batch."""

    def refuse_run(self, run: AppendRun, error: Overloaded) -> None:
        """There is no room for the appends of one turn."""

    def is_waiting(self, topic: str) -> bool:
        """True if appends wait for this topic."""

    def end_turn_soon(self) -> None:
        """Submit the appends of this turn of the loop at its end."""


class AppendRun:
    """Appends to one topic that are submitted as one batch. Event loop only, but for `post`."""

    __slots__ = (
        "_are_spans",
        "_batch",
        "_records",
        "_service",
        "handle",
        "members",
        "payload_bytes",
    )

    def __init__(self, service: RunTarget, handle: Handle) -> None:
        self._service = service
        self.handle = handle
        self._records = 0
        self._are_spans = False  # of all members, or of none
        self.members: list[_Member] = []
        self.payload_bytes = 0

    def add(self, batch: Batch, options: WriteOptions, done: Callable[[Answer], None]) -> bool:
        """Add an append; false when it has to be submitted alone, or there is no room."""
        size = batch.payload_bytes
        spans = batch.spans
        records = self._records + (len(batch.datas) if spans is None else spans.count)
        are_spans = spans is not None
        if (
            size > _MEMBER_BYTES_MAX
            or not options.is_unconditional
            or not is_plain(batch)
            or records > _RECORDS_MAX
            or self.payload_bytes + size > _BYTES_MAX
            or (are_spans is not self._are_spans and self.members)
            or self.handle.is_dropped
        ):
            return False
        self._are_spans = are_spans
        self._records = records
        self.members.append((batch, options, done))
        self.payload_bytes += size
        return True

    def batch(self) -> Batch:
        """All records of the run. A single member is passed on as it is."""
        batches = [batch for batch, _, _ in self.members]
        if len(batches) == 1:
            self._batch = batches[0]
        elif self._are_spans:
            self._batch = Batch([], self.payload_bytes, spans=joined_spans(batches))
        else:
            datas = [data for batch in batches for data in batch.datas]
            self._batch = Batch(datas, self.payload_bytes)
        return self._batch

    def post(self, outcome: Outcome) -> None:
        """Any thread."""
        self._service.bridge.post(self.resolve, outcome)

    def resolve(self, outcome: Outcome) -> None:
        """Divide the answer among the members."""
        answer = self._service.core.answer(outcome, self._batch)
        if not isinstance(answer, Appended):
            for _, _, done in self.members:
                _call(done, answer)
            return
        if len(self.members) == 1:
            _call(self.members[0][2], answer)
            return
        topic, head, epoch, ts = answer.topic, answer.head_seq, answer.epoch, answer.ts
        wal_ms, fsync_ms, wait_ms = answer.wal_append_ms, answer.fsync_ms, answer.throttle_wait_ms
        first = answer.first_seq
        for batch, _, done in self.members:
            count = len(batch.datas) if batch.spans is None else batch.spans.count
            last = first + count - 1
            part = Appended(
                topic, first, last, count, head, epoch, ts, False, False, wal_ms, fsync_ms, wait_ms
            )
            first = last + 1
            _call(done, part)


class AppendRuns:
    """The runs of the current turn, one for each topic. Event loop only."""

    def __init__(self, service: RunTarget) -> None:
        self._service = service
        self.open: dict[str, AppendRun] = {}  # by topic

    @property
    def waiting_bytes(self) -> int:
        return sum(run.payload_bytes for run in self.open.values())

    def add(
        self, handle: Handle, batch: Batch, options: WriteOptions, done: Callable[[Answer], None]
    ) -> bool:
        """Start a run with this append; false when it has to be submitted alone. An existing run is
        submitted before it."""
        config = handle.config
        # Whether a full topic refuses an append, and whether one in memory has seqs for it, is
        # decided for each alone.
        if config.discard == "reject" or config.durability == "ephemeral":
            return False
        name = handle.name
        self.submit(name)
        if self._service.is_waiting(name):  # there was no room for that run
            return False
        run = AppendRun(self._service, handle)
        if not run.add(batch, options, done):
            return False
        self.open[name] = run
        self._service.end_turn_soon()
        return True

    def submit_all(self) -> None:
        for topic in list(self.open):
            self.submit(topic)

    def submit(self, topic: str) -> None:
        """Submit the topic's run, before anything else is submitted to the topic."""
        run = self.open.pop(topic, None)
        if run is None:
            return
        service = self._service
        try:
            service.submit_run(run)
        except Overloaded as error:
            service.refuse_run(run, error)
        except Exception as error:  # noqa: BLE001 - it is the answer to all of them
            for _, _, done in run.members:
                service.bridge.post(done, error)


def joined_spans(batches: list[Batch]) -> RecordSpans:
    """The records of all these batches, which stay in their texts."""
    spans = [batch.spans for batch in batches if batch.spans is not None]
    return RecordSpans(
        [text for one in spans for text in one.texts],
        [table for one in spans for table in one.tables],
        sum([one.count for one in spans]),
    )


def _call(done: Callable[[Answer], None], answer: Answer) -> None:
    try:
        done(answer)
    except Exception:  # noqa: BLE001 - the others are other people's
        _log.exception("the answer to an append could not be delivered")
