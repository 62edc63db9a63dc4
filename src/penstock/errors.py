"""Every exception Penstock raises on purpose, in one tree.

    PenstockError
    ├── UsageError            fix the call; nothing was written
    │   ├── InvalidArgument       a name, size, type or value is out of range
    │   │   ├── InvalidDefinition     of features; has the path of what is wrong
    │   │   └── SchemaMismatch        an event, key or feature is not as it is registered
    │   ├── ForceRequired         the new definition takes something away, and `force` was not set
    │   ├── HistoryGone           a row of an earlier time needs records that are gone
    │   ├── TopicNotFound
    │   ├── NotAQueue             the topic is a log: it has no jobs to claim
    │   ├── PositionNotFound      the topic has no consumer position of this name
    │   ├── DelayedNotFound       the topic never had a delayed batch of this id
    │   ├── AlreadyDelivered      a batch is not delayed any more, or was cancelled before
    │   ├── TopicExists           the existing topic is incompatible with the request
    │   ├── RouterNotFound
    │   ├── RouterCycle           the router would close a loop, and was not allowed to
    │   ├── TableNotFound
    │   ├── TableExists           a table of this name has another key or topic
    │   ├── RecordTooLarge
    │   ├── BatchTooLarge
    │   ├── FrameTooLarge         a sender's frame is larger than a segment of its spool
    │   ├── TopicFull             a `discard: reject` topic would overflow
    │   ├── SeqMismatch           the head is not what `expected_seq` says
    │   ├── Unauthorized          the server does not know this token
    │   └── Forbidden             the token is known and may not do this
    ├── Overloaded            wait `retry_after_ms`, then try again
    │   ├── SpoolFull             a sender's spool has reached its cap
    │   │   └── Backpressure          and no room came in time: says whether the server is there
    │   ├── NotReady              a table or feature table is still being folded from the log
    │   ├── ConnectionFailed      no server answered; nothing was written
    │   └── OutcomeUnknown        sent, and no answer came: repeat with `idempotency_key`
    ├── StorageError          see an operator: carries path, offset, reason and a hint
    │   ├── CorruptFrame          bytes on disk differ from what was written
    │   ├── ColdUnavailable       the cold tier cannot be asked; nothing is lost by that
    │   ├── LogFailed             a write or sync failed: closed for writing until reopened
    │   ├── DirectoryInUse        another process holds the data directory
    │   │   └── SlotInUse             another sender holds the slot
    │   ├── NetworkFilesystem     the directory is on NFS, SMB or the like, and that was not allowed
    │   ├── SpoolFailed           the spool's disk is full or fails; what it holds still drains
    │   ├── SpoolHole             frames between two segments of a spool are missing
    │   ├── ProjectionFailed      a table or feature table has stopped; its topic is unharmed
    │   ├── FormatTooNew          written by a later version of Penstock
    │   └── ServerError           the server answered that it failed, or nothing sensible
    ├── SenderHalted          the server refused what was sent, and sending has stopped
    └── Closed                the object was closed by its owner

The four branches answer the one question a caller has: what do I do next?
"""

from __future__ import annotations

_SHOWN_CHARS = 255  # of a name that somebody made up; no topic's is longer


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


def _plain(value: object) -> object:
    """A value as it is, or as a text if it is long or no JSON."""
    if isinstance(value, (bool, float)) or (isinstance(value, int) and abs(value) < 1 << 63):
        return value
    return _short(value if isinstance(value, str) else repr(value))


class PenstockError(Exception):
    """Base of everything below."""

    rows_taken = 0  # of a batch that a sender took in part before it raised this


class UsageError(PenstockError):
    """The call is wrong. Nothing was written."""


class InvalidArgument(UsageError):
    """A name, size, type or value is out of range."""


class InvalidDefinition(InvalidArgument):
    """A definition of features is wrong at `path`. `reason` is a word for programs."""

    def __init__(self, why: str, *, path: str, reason: str) -> None:
        super().__init__(f"{path}: {why}" if path else why)
        self.why = why
        self.path = path
        self.reason = reason


class SchemaMismatch(InvalidArgument):
    """An event, a key or the name of a feature does not fit what is registered. Each attribute is
    None if it does not apply: `field` is one of the event or a column of the table's key, `index`
    the place of the event among those of one push."""

    def __init__(
        self,
        message: str,
        *,
        event: str | None = None,
        table: str | None = None,
        feature: str | None = None,
        field: str | None = None,
        value: object = None,
        index: int | None = None,
    ) -> None:
        super().__init__(message)
        self.event = event
        self.table = table
        self.feature = feature
        self.field = field
        self.value = value
        self.index = index

    @property
    def detail(self) -> dict[str, object]:
        """The attributes that apply, for JSON. A value that is long, or no JSON, is a text."""
        names = ("event", "table", "feature", "field", "value", "index")
        found = {name: getattr(self, name) for name in names}
        return {name: _plain(one) for name, one in found.items() if one is not None}


class ForceRequired(UsageError):
    """A new definition of features removes or loses something, and `force` is not set."""

    def __init__(self, message: str, *, changes: list[dict[str, object]]) -> None:
        super().__init__(message)
        self.changes = changes


class HistoryGone(UsageError):
    """A row as of an earlier time needs records that are gone. Those from `earliest_seq` on are
    there, as far as is known."""

    def __init__(self, message: str, *, topic: str, earliest_seq: int) -> None:
        super().__init__(message)
        self.topic = topic
        self.earliest_seq = earliest_seq

    @classmethod
    def of(cls, topic: str, first: int, last: int, seq: int) -> HistoryGone:
        """Records first..last of a topic are gone, and a row as of `seq` needs them."""
        return cls(
            f"records {first} to {last} of topic {_short(topic)!r} are gone, and a row as of seq "
            f"{seq} is folded from all records up to it: read the row as of now, compute it on "
            "Spark from a copy that has them, or raise the topic's caps and ttl for later reads",
            topic=_short(topic),
            earliest_seq=last + 1,
        )


class TopicNotFound(UsageError):
    """No topic has this name."""

    def __init__(self, topic: str) -> None:
        self.topic = _short(topic)
        super().__init__(f"no topic named {self.topic!r}")


class PositionNotFound(UsageError):
    """The topic has no consumer position of this name."""

    def __init__(self, topic: str, name: str) -> None:
        super().__init__(f"topic {topic!r} has no position named {name!r}")
        self.topic = topic
        self.name = name


class DelayedNotFound(UsageError):
    """The topic has no delayed batch of this id, and had none."""

    def __init__(self, topic: str, delayed_id: int) -> None:
        super().__init__(f"topic {topic!r} has no delayed batch with the id {delayed_id}")
        self.topic = topic
        self.delayed_id = delayed_id


class AlreadyDelivered(UsageError):
    """A delayed batch is not delayed any more: it was delivered, is on its way to its topic, or was
    cancelled before. Nothing was cancelled."""

    def __init__(self, topic: str, delayed_id: int) -> None:
        super().__init__(
            f"the batch {delayed_id} of topic {topic!r} is not delayed any more: its time has "
            "come, or it was cancelled before"
        )
        self.topic = topic
        self.delayed_id = delayed_id


class TopicExists(UsageError):
    """The topic, or the router, exists and cannot be changed as requested. `reason` is a word for
    programs, if there is one."""

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class RouterNotFound(UsageError):
    """No router has this name."""

    def __init__(self, router: str) -> None:
        super().__init__(f"router {router!r} does not exist")
        self.router = router


class RouterCycle(UsageError):
    """The router would close a cycle, and `allow_cycle` is not set."""

    def __init__(self, cycle: list[str]) -> None:
        super().__init__(
            "the router would close a cycle: " + " to ".join(cycle) + " (allow_cycle permits it)"
        )
        self.cycle = cycle


class TableNotFound(UsageError):
    """No table has this name. `hint` tells which have."""

    def __init__(self, table: str, hint: str = "") -> None:
        self.table = _short(table)
        super().__init__(f"table {self.table!r} does not exist" + (f"; {hint}" if hint else ""))
        self.hint = hint


class TableExists(UsageError):
    """A table of this name has another key or another topic: drop it first."""


class NotAQueue(UsageError):
    """Jobs are claimed from queues; this topic is a log."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic!r} is a log, not a queue: it has no jobs to claim")
        self.topic = topic


class RecordTooLarge(UsageError):
    """One record is over a size limit, or a batch can never fit its topic's cap."""


class BatchTooLarge(UsageError):
    """Too many records or bytes in one append."""


class TopicFull(UsageError):
    """A `discard: reject` topic would overflow. No seq was used."""

    def __init__(
        self, topic: str, *, cap_records: int, cap_bytes: int, head_seq: int, earliest_seq: int
    ) -> None:
        super().__init__(
            f"topic {topic!r} is full (cap_records={cap_records}, cap_bytes={cap_bytes})"
        )
        self.topic = topic
        self.cap_records = cap_records
        self.cap_bytes = cap_bytes
        self.head_seq = head_seq
        self.earliest_seq = earliest_seq


class FrameTooLarge(UsageError):
    """The frame is larger than a segment of the spool. No number was used."""

    def __init__(self, size: int, *, size_max: int) -> None:
        super().__init__(f"the payload of a frame has {size} bytes: expected at most {size_max}")
        self.size = size
        self.size_max = size_max


class SeqMismatch(UsageError):
    """The head of the topic is not the expected one. No seq was used."""

    def __init__(self, topic: str, *, expected_seq: int, head_seq: int) -> None:
        super().__init__(f"topic {topic!r} is at seq {head_seq}, not at {expected_seq}")
        self.topic = topic
        self.expected_seq = expected_seq
        self.head_seq = head_seq


class Unauthorized(UsageError):
    """The server needs a token and got none, or an unknown one."""


class Forbidden(UsageError):
    """The token is known, and may not do this or not with this topic."""


class Overloaded(PenstockError):
    """A limit is reached: retry later. Nothing was written, except that an append that timed out
    while it waited for the disk may still happen; its message says so."""

    def __init__(
        self, what: str, *, retry_after_ms: int, limit: tuple[str, int] | None = None
    ) -> None:
        super().__init__(f"{what}; try again in {retry_after_ms} ms")
        self.retry_after_ms = retry_after_ms
        self.limit = limit  # the name of the bound and its value, if it is a setting


class SpoolFull(Overloaded):
    """The spool is full. Nothing was written, no number was used."""

    def __init__(self, *, stored_bytes: int, total_bytes_max: int) -> None:
        super().__init__(
            f"the spool is full: {stored_bytes} bytes of {total_bytes_max}",
            retry_after_ms=1000,
            limit=("total_bytes_max", total_bytes_max),
        )
        self.stored_bytes = stored_bytes
        self.total_bytes_max = total_bytes_max


class Backpressure(SpoolFull):
    """The spool had no room in time. Rows of earlier calls stay in memory, and a later flush stores
    them. Rows of the failed call were not added, except `rows_taken` rows of a batch.

    `is_server_away` tells an absent server from a slow one.
    """

    def __init__(
        self, why: str, *, stored_bytes: int, total_bytes_max: int, is_server_away: bool
    ) -> None:
        super().__init__(stored_bytes=stored_bytes, total_bytes_max=total_bytes_max)
        self.args = (f"the spool is full ({stored_bytes} of {total_bytes_max} bytes): {why}",)
        self.is_server_away = is_server_away


class NotReady(Overloaded):
    """A table or feature table is still being folded from the log."""


class ConnectionFailed(Overloaded):
    """No server answered, or the answer to a read was incomplete. Nothing was written."""


class OutcomeUnknown(Overloaded):
    """The call was sent and no answer arrived: it may or may not have been executed. An append can
    be repeated with the same `idempotency_key`; it is then appended once."""

    def __init__(self, what: str, *, retry_after_ms: int, idempotency_key: str | None) -> None:
        super().__init__(what, retry_after_ms=retry_after_ms)
        self.idempotency_key = idempotency_key


class StorageError(PenstockError):
    """A problem on disk that needs an operator. Has the path, the reason and a hint."""

    def __init__(
        self, path: str, *, reason: str, offset: int | None = None, hint: str = ""
    ) -> None:
        where = path if offset is None else f"{path} at byte {offset}"
        super().__init__(f"{where}: {reason}" + (f"; {hint}" if hint else ""))
        self.path = path
        self.offset = offset
        self.reason = reason
        self.hint = hint


class CorruptFrame(StorageError):
    """Bytes on disk are not what was written there."""


class ColdUnavailable(StorageError):
    """Old records are in the cold tier, which does not answer, is not mounted, or belongs to
    another log. Writes and reads of newer records work."""


class LogFailed(StorageError):
    """A write, sync or rename failed, or a call was interrupted half-way; the log accepts no more
    writes until it is reopened."""

    @classmethod
    def of(cls, what: str, error: OSError, path: str) -> LogFailed:
        """`what` failed. An OSError without errno is not the system's: a signal handler raised
        it, a TimeoutError for example."""
        if error.errno is None:
            return cls.interrupted(error, path)
        return cls(
            error.filename or path,
            reason=f"{what} failed: {error.strerror or error}",
            hint="the log is closed for writing; free space or replace the disk, then reopen",
        )

    @classmethod
    def interrupted(cls, cause: BaseException, path: str) -> LogFailed:
        """An asynchronous exception interrupted a call of a log without threads."""
        return cls(
            path,
            reason=f"a call was interrupted: {cause!r}",
            hint="the log is closed for writing; reopen it: nothing acknowledged is lost",
        )


class DirectoryInUse(StorageError):
    """Another process holds this data directory."""

    def __init__(self, path: str, *, pid: int | None) -> None:
        holder = f"process {pid}" if pid else "another process"
        super().__init__(
            path,
            reason=f"in use by {holder}",
            hint="stop it, or connect to it instead of opening its directory",
        )
        self.pid = pid


class SlotInUse(DirectoryInUse):
    """Another sender holds this slot; `pid` is its process, as far as is known."""


class NetworkFilesystem(StorageError):
    """The directory of a log or a spool is on a network file system. Nothing was written."""

    def __init__(self, path: str, *, kind: str, allowed_by: str) -> None:
        super().__init__(
            path,
            reason=f"it is on a network file system ({kind}), where locks and syncs are not "
            "reliable: two processes may write at once, and acknowledged records may be lost",
            hint=f"use a directory on a local disk; {allowed_by} opens it all the same",
        )
        self.kind = kind


class SpoolFailed(StorageError):
    """The spool's disk is full, or a write or sync failed. The frame was not stored; stored frames
    stay and are sent. Retry: the spool works again as soon as the disk does."""


class SpoolHole(StorageError):
    """Frames are missing between two segments, for an unknown reason. Nothing was changed."""


class ProjectionFailed(StorageError):
    """A table or feature table has stopped. Its topic is unharmed."""


class FormatTooNew(StorageError):
    """The directory was written by a later version."""


class ServerError(StorageError):
    """The server answered with an error, or its answer is invalid. `path` is its address."""


class SenderBusy(UsageError):
    """The sender cannot be closed here: a signal handler has interrupted a call of the sender,
    which waits for this one. Nothing was changed."""


class SenderHalted(PenstockError):
    """The server refused a frame, and the policy of the sender stops sending. The frames in the
    spool stay."""


class Closed(PenstockError):
    """The log, or the client, was closed."""
