"""The journal: the one place where the state of a topic changes.

A change is one or more entries of one topic. The journal encodes them into one commit of the
topic's shard, applies each through `Registry.apply` once the commit class is met, and then wakes
followers. Replay applies the same entries in the same order (`directory/replay.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from penstock.atomic_steps import Step, perform
from penstock.clock import Clock
from penstock.codec.entry import encode_entry
from penstock.engine.batch import Batch
from penstock.engine.commit_merging import merged
from penstock.engine.handle import Handle
from penstock.entries import (
    KeyRemembered,
    LeasesChanged,
    RecordsAppended,
    RecordsDeleted,
    RecordsRouted,
    RouterLogged,
    RouterMoved,
    SeqsReserved,
    TopicCreated,
    TopicDropped,
    TopicEntry,
    WalRange,
)
from penstock.errors import Closed, StorageError, TopicNotFound
from penstock.storage.wal.pending_commit import PendingCommit, closed_gate
from penstock.storage.wal.shard import Shard
from penstock.topics import idempotency
from penstock.topics.registry import Registry
from penstock.types import TopicConfig

Applied = Callable[[PendingCommit], None]


class Change(msgspec.Struct, eq=False):
    """The change of a topic by a commit. `on_applied` runs under the topic's lock."""

    handle: Handle
    entries: Sequence[TopicEntry]
    on_applied: Applied | None = None
    notifies: bool = False


class Journal:
    """Safe from several threads: each method says which lock its caller holds."""

    def __init__(
        self,
        registry: Registry,
        clock: Clock,
        handles: dict[str, Handle],
        *,
        wal_range: Callable[[Handle, PendingCommit], WalRange],
        check_writable: Callable[[Shard], None],
        timeout_s: float,
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._handles = handles
        self.wal_range = wal_range
        self._check_writable = check_writable
        self._timeout_s = timeout_s
        # One object each: the shard publishes neighbours with the same publisher together.
        self._publisher = self._publish
        self._append_publisher = self._publish_appends

    # Changes of a topic that exists.

    def submit(
        self,
        handle: Handle,
        entries: Sequence[TopicEntry],
        *,
        durable: bool = True,
        frames: bytes | None = None,
        on_applied: Applied | None = None,
        callback: Applied | None = None,
        notifies: bool = False,
        ts: int | None = None,
        steps: Iterable[Step] = (),
    ) -> PendingCommit:
        """Queue entries as one commit. The topic's lock is held, so the order of these calls is the
        order in the log. `frames` is for entries that are logged in another form; `steps` are
        performed atomically with the queueing."""
        if frames is None:
            frames = encoded(entries, self._clock.now_ms() if ts is None else ts)
        commit = PendingCommit(
            frames,
            self._publisher,
            durable,
            handle.topic.id,
            Change(handle, entries, on_applied, notifies),
            callback,
            closed_gate() if callback is None else None,
            result=0,
        )
        handle.shard.submit(commit, steps)
        return commit

    def commit(
        self, handle: Handle, *entries: TopicEntry, callback: Applied | None = None
    ) -> PendingCommit:
        """Log entries durably and apply them. Returns when that is done; with a callback, when they
        are queued: then push the topic's shard."""
        self._check_writable(handle.shard)
        with handle.lock:
            if handle.is_dropped:
                raise TopicNotFound(handle.topic.name)
            commit = self.submit(handle, entries, callback=callback)
        if callback is None:
            self.wait(handle, commit)
        return commit

    def wait(self, handle: Handle, commit: PendingCommit) -> None:
        """Write a queued commit, on this thread when the shard is idle, and return when it is
        resolved; raise what went wrong. No lock is held."""
        handle.shard.drive(commit)
        commit.wait(self._timeout_s)

    def hold_leases(
        self,
        handle: Handle,
        entries: Sequence[LeasesChanged],
        logged: Sequence[LeasesChanged],
        *,
        durable: bool,
        callback: Applied | None,
        steps: Iterable[Step] = (),
    ) -> PendingCommit | None:
        """Queue the `logged` entries and apply all entries, in one step: from now on no other
        worker gets the job, and its worker gets the answer when the commit is done. None when
        nothing is logged. The topic's lock is held."""
        queue = handle.topic.queue
        changes = [*queue.steps(entries), *steps]
        commit = None
        if logged:
            frames = encoded(logged, self._clock.now_ms())
            commit = self.submit(
                handle, (), durable=durable, frames=frames, callback=callback, steps=changes
            )
        else:
            perform(changes)
        queue.follow(entries)
        return commit

    def apply_unlogged(self, handle: Handle, entries: Sequence[TopicEntry]) -> None:
        """Apply an entry without logging it, for state that does not survive a restart. The topic's
        lock is held."""
        if handle.topic.undo is not None:
            handle.topic.roll_back()
        for entry in entries:
            self._registry.apply(entry)

    def reserve(self, handle: Handle, ceiling: int, ts: int) -> PendingCommit:
        """Reserve seqs up to `ceiling`, so that none is assigned twice. Later commits are
        acknowledged only after the reservation is durable. The topic's lock is held."""

        def reserved(commit: PendingCommit) -> None:
            handle.durable_ceiling = ceiling

        entry = SeqsReserved(handle.topic.id, ceiling)
        steps: tuple[Step, ...] = ((setattr, handle, "reserved", ceiling),)
        return self.submit(handle, (entry,), on_applied=reserved, ts=ts, steps=steps)

    # Creation.

    def create(
        self,
        shard: Shard,
        topic_id: int,
        name: str,
        config: TopicConfig,
        *,
        reserved: int,
        callback: Applied | None = None,
        steps_of: Callable[[PendingCommit], Iterable[Step]] = lambda commit: (),
    ) -> PendingCommit:
        """Queue the creation of a topic. The topic joins `handles` when the commit is published, so
        that a checkpoint never sees one without the other. The caller guards the names."""
        now_ms = self._clock.now_ms()
        entries: list[TopicCreated | SeqsReserved] = [TopicCreated(topic_id, name, config, now_ms)]
        if reserved:
            entries.append(SeqsReserved(topic_id, reserved))

        def publish(commits: list[PendingCommit], finish: list[Step], is_own: bool) -> bool:
            if not is_own:
                return False
            for entry in entries:
                self._registry.apply(entry, commits[-1].start)
            topic = self._registry.by_id(topic_id)
            if topic is None:
                raise AssertionError("a created topic must exist")
            handle = Handle(topic, shard)
            handle.durable_ceiling = topic.ceiling
            self._handles[name] = handle
            perform(finish)
            return True

        commit = PendingCommit(
            encoded(entries, now_ms),
            publish,
            durable=True,
            ordering_key=topic_id,
            callback=callback,
            gate=closed_gate(),
        )
        shard.submit(commit, steps_of(commit))
        return commit

    def drop(self, handle: Handle, callback: Applied) -> PendingCommit:
        """Queue the removal of a topic; from now on it accepts no writes. Its lock is held."""
        now_ms = self._clock.now_ms()
        entry = TopicDropped(handle.topic.id, handle.topic.name)
        commit = PendingCommit(
            encode_entry(entry, now_ms),
            self._publisher,
            durable=True,
            ordering_key=entry.topic_id,
            subject=Change(handle, (entry,), None, False),
            callback=callback,
            gate=closed_gate(),
            result=0,
        )
        steps: tuple[Step, ...] = (
            (setattr, handle, "drop", commit),
            (setattr, handle, "is_dropped", True),
        )
        handle.shard.submit(commit, steps)
        return commit

    def log_recovered(self, shard: Shard, entries: Sequence[TopicEntry]) -> None:
        """Log the entries that recovery has applied. Durable on return."""
        now_ms = self._clock.now_ms()
        commit = PendingCommit(encoded(entries, now_ms), None, durable=True, gate=closed_gate())
        shard.submit(commit)
        shard.drive(commit)
        commit.wait(self._timeout_s)

    # Appends.

    def submit_append(
        self,
        handle: Handle,
        entry: RecordsAppended,
        batch: Batch,
        frames: bytes,
        frame_count: int,
        durable: bool,
        callback: Applied | None,
        gate: object,
        delay: LeasesChanged | None,
    ) -> PendingCommit:
        """Queue numbered records; `delay` delays jobs until they are due. The topic's lock is
        held."""
        commit = PendingCommit(
            frames,
            self._append_publisher,
            durable,
            entry.topic_id,
            (handle, entry, batch, delay),
            callback,
            gate,
            count=frame_count,
        )
        handle.last_ts = entry.last_ts  # not among the steps: it may be ahead of the records
        steps: tuple[Step, ...] = (
            (setattr, handle, "next_seq", entry.first_seq + entry.count),
            (setattr, handle, "staged_bytes", handle.staged_bytes + entry.payload_bytes),
        )
        if entry.key:
            name = idempotency.name_of(entry.key)
            steps += ((handle.keys_under_way.__setitem__, name, commit),)
        handle.shard.submit(commit, steps)
        return commit

    def keep_in_memory(
        self,
        handle: Handle,
        entry: RecordsAppended,
        batch: Batch,
        callback: Applied | None,
        delay: LeasesChanged | None,
    ) -> PendingCommit:
        """`ephemeral`: visible at once, never written. The topic's lock is held; resolve the
        commit without it."""
        topic = handle.topic
        if topic.undo is not None:
            topic.roll_back()
        if delay is not None:
            self._registry.apply(delay)
        last = entry.first_seq + entry.count - 1
        try:
            topic.guard()
            topic.add_records(entry, self._registry.place)
            steps: list[Step] = [
                (setattr, handle, "next_seq", last + 1),
                (setattr, handle, "last_ts", entry.last_ts),
                (setattr, topic, "undo", None),
            ]
            if entry.key:
                steps += topic.remembering(entry.key, entry.first_seq, last, entry.last_ts)
            perform(steps)
        except BaseException:
            topic.roll_back()
            raise
        topic.enforce_caps()
        return PendingCommit(b"", None, False, entry.topic_id, (handle, entry, batch), callback)

    # Publishing, on the thread that committed.

    def _publish(self, commits: list[PendingCommit], finish: list[Step], is_own: bool) -> bool:
        if not is_own:
            return self._publish_in_one_step(commits, finish)
        handle: Handle = commits[0].subject.handle
        notifies = False
        with handle.lock:
            for commit in commits:
                change: Change = commit.subject
                notifies = notifies or change.notifies
                for entry in change.entries:
                    if isinstance(entry, TopicDropped):
                        del self._handles[entry.name]
                    elif handle.is_dropped:
                        continue
                    commit.result += self._registry.apply(entry, commit.start)
                if change.on_applied is not None:
                    change.on_applied(commit)
            perform(finish)
        if notifies and handle.is_followed:
            handle.wake()
        return True

    def _publish_in_one_step(self, commits: list[PendingCommit], finish: list[Step]) -> bool:
        """Publish on a thread that may be interrupted at any point: commits that change nothing,
        and one delete of seqs among them. False for other changes."""
        changed = [commit for commit in commits if _changes_state(commit.subject)]
        if not changed:
            perform(finish)
            return True
        commit = changed[0]
        change: Change = commit.subject
        if len(changed) > 1 or len(change.entries) != 1:
            return False
        entry = change.entries[0]
        if (
            not isinstance(entry, RecordsDeleted)
            or change.on_applied is not None
            or change.notifies
        ):
            return False
        handle = change.handle
        with handle.lock:
            try:
                found = None if handle.is_dropped else self._registry.deleting(entry, commit.start)
            except StorageError:
                return False  # the shard's own thread meets it again, and closes the log
            if found is None:
                return False
            steps, removed = found
            perform((*steps, (setattr, commit, "result", removed), *finish))
        return True

    def _publish_appends(
        self, commits: list[PendingCommit], finish: list[Step], is_own: bool
    ) -> bool:
        """The same for appends; those of one group commit are merged first."""
        handle: Handle = commits[0].subject[0]
        topic = handle.topic
        with handle.lock:
            if topic.undo is not None:
                topic.roll_back()
            if not is_own:
                return len(commits) == 1 and self._publish_guarded(handle, commits[0], finish)
            self._apply_appends(handle, commits)
            perform(finish)
        if handle.is_followed:
            handle.wake()
        return True

    def _publish_guarded(self, handle: Handle, commit: PendingCommit, finish: list[Step]) -> bool:
        """Publish one append on a thread that may be interrupted at any point. False when it
        changes more than the end of its topic."""
        entry: RecordsAppended = commit.subject[1]
        topic = handle.topic
        config = topic.config
        if (
            entry.first_seq != topic.head + 1
            or entry.key
            or handle.listeners
            or handle.wal_positions is not None
            or config.cap_records
            or config.cap_bytes
            or handle.is_dropped
            or commit.subject[3] is not None
        ):
            return False
        try:
            topic.guard()
            topic.add_records(entry, self._registry.place)
            topic.position = commit.start
            finish += (
                (setattr, handle, "staged_bytes", handle.staged_bytes - entry.payload_bytes),
                (setattr, topic, "undo", None),
            )
            if handle.mark is not None:
                finish += handle.mark.steps()
            perform(finish)
        except BaseException:
            topic.roll_back()
            raise
        return True

    def _apply_appends(self, handle: Handle, commits: list[PendingCommit]) -> None:
        apply = self._registry.apply
        is_dropped = handle.is_dropped
        for commit in commits:
            delay = commit.subject[3]
            if delay is not None and not is_dropped:
                apply(delay)  # before its jobs, so that no worker claims them early
        for entry in merged([commit.subject[1] for commit in commits]):
            if entry.key:
                handle.keys_under_way.pop(idempotency.name_of(entry.key), None)
            if not is_dropped:
                apply(entry, commits[-1].start)
            # Last: a caller that adds the two without the lock may count bytes twice, never miss
            # them.
            handle.staged_bytes -= entry.payload_bytes
        if handle.wal_positions is not None:
            for commit in commits:
                entry = commit.subject[1]
                last = entry.first_seq + entry.count - 1
                handle.wal_positions.note(entry.first_seq, last, self.wal_range(handle, commit))


def _changes_state(change: Change) -> bool:
    """False for a commit that is only logged: its leases hold since it was queued."""
    return bool(change.entries) or change.on_applied is not None or change.notifies


def encoded(entries: Sequence[TopicEntry], ts: int) -> bytes:
    return b"".join([_encoded(entry, ts) for entry in entries])


def _encoded(entry: TopicEntry, ts: int) -> bytes:
    if isinstance(
        entry, RecordsAppended | RecordsRouted | RouterLogged | RouterMoved | KeyRemembered
    ):
        # The log keeps these in another form, which their caller encodes.
        raise AssertionError(("no frames were given", entry.topic_id))  # noqa: TRY004 - a bug
    return encode_entry(entry, ts)


def check_open(handle: Handle) -> None:
    """Raise unless the topic can still be written to. Its lock is held."""
    if handle.is_closed:
        raise Closed("the log is closed")
    if handle.is_dropped:
        raise TopicNotFound(handle.topic.name)
