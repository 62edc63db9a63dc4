"""All projections of a log: their definitions, their folders, and the threads that they share."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from penstock import forks, limits
from penstock.clock import Clock
from penstock.errors import Closed, InvalidArgument
from penstock.projection_types import GapPolicy
from penstock.projections.pool import ProjectionPool
from penstock.projections.projection import Projection, Tail
from penstock.projections.runner import (
    INTERVAL_MS,
    OWN_READS_MAX,
    ProjectionRunner,
    RunnerOptions,
)
from penstock.projections.spill import SpillFolder
from penstock.storage.fs import Filesystem

_ALL_RECORDS = 1 << 40  # a log without threads has nobody else to fold for its readers


class ProjectionDefinition(msgspec.Struct, frozen=True):
    """As it is kept in the log. `definition` decides the state; the others can change without
    folding it again."""

    id: int  # the seq of the record that created it; names its folder. 0 in that record
    kind: str
    name: str
    topic: str
    definition: msgspec.Raw
    on_gap: GapPolicy = "accept"
    bytes_max: int = limits.PROJECTION_BYTES_MAX


class ProjectionLog(Protocol):
    """The log as the host needs it. Safe from several threads."""

    @property
    def fs(self) -> Filesystem: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def folder(self) -> str:
        """The folder of all projections. It may not exist yet."""

    @property
    def is_threaded(self) -> bool: ...

    @property
    def is_writable(self) -> bool:
        """False for a log that is damaged or has failed: its files stay as they are."""

    def tail(self, topic: str) -> Tail: ...

    def definitions(self) -> list[tuple[int, bytes]]:
        """The records of definitions, with their seqs, oldest first."""

    def add_definition(self, text: bytes) -> int:
        """Append a record; its seq. Durable on return."""

    def remove_definitions(self, seqs: list[int]) -> None:
        """Delete these records. Durable on return."""


Maker = Callable[[ProjectionDefinition], Projection]


@dataclass(slots=True)
class HostedProjection:
    definition: ProjectionDefinition
    seq: int  # of its newest record
    tail: Tail
    runner: ProjectionRunner
    changed: Callable[[], None]


class ProjectionHost:
    """Safe from several threads. One topic of the log has one record for each projection: a
    change appends the new record and deletes the one before it, a drop deletes it."""

    def __init__(self, log: ProjectionLog, interval_ms: int = INTERVAL_MS) -> None:
        self._log = log
        self._interval_ms = interval_ms
        self._lock = threading.RLock()  # guards the definitions; held across their changes
        self._makers: dict[str, Maker] = {}
        self._known: dict[tuple[str, str], tuple[int, ProjectionDefinition]] = {}
        self._hosted: dict[tuple[str, str], HostedProjection] = {}
        self._pool = ProjectionPool(log.clock, is_threaded=log.is_threaded)
        self._is_closed = False
        self._owner_pid = forks.pid()
        self._load()
        forks.add(self)

    def register(self, kind: str, make: Maker) -> None:
        """Run the projections of this kind from now on. `make` gives an empty one; it is called
        again for each rebuild."""
        with self._lock:
            if kind in self._makers:
                return
            self._makers[kind] = make
            for key in sorted(key for key in self._known if key[0] == kind):
                self._run(key)

    @property
    def fs(self) -> Filesystem:
        return self._log.fs

    # Definitions.

    def _load(self) -> None:
        superseded = []
        newest: dict[int, int] = {}
        for seq, text in self._log.definitions():
            definition = msgspec.json.decode(text, type=ProjectionDefinition)
            number = definition.id or seq
            if number in newest:
                superseded.append(newest[number])
            newest[number] = seq
            stored = msgspec.structs.replace(definition, id=number)
            self._known[definition.kind, definition.name] = seq, stored
        if superseded:  # a crash came between a change and the removal of what it replaced
            self._log.remove_definitions(superseded)
        ids = {str(definition.id) for _, definition in self._known.values()}
        for name in self._log.fs.list(self._log.folder):
            if name.isdigit() and name not in ids:
                self._remove_folder(f"{self._log.folder}/{name}")
            elif name in ids and self._log.is_writable:
                self._remove_leftovers(f"{self._log.folder}/{name}")

    def create(
        self,
        kind: str,
        name: str,
        topic: str,
        definition: bytes,
        *,
        on_gap: GapPolicy = "accept",
        bytes_max: int = limits.PROJECTION_BYTES_MAX,
    ) -> HostedProjection:
        """A new projection. Durable on return; its state is folded in the background. Its kind is
        registered, and its name is free."""
        key = kind, name
        given = ProjectionDefinition(
            0, kind, name, topic, msgspec.Raw(definition), on_gap, bytes_max
        )
        with self._lock:
            self._check_open()
            if key in self._known:
                raise InvalidArgument(f"{kind} {name!r} exists")
            if len(self._known) >= limits.PROJECTIONS_MAX:
                raise InvalidArgument(
                    f"there are {limits.PROJECTIONS_MAX} tables and feature parts: drop one first"
                )
            self._makers[kind](given)  # refuses a definition before it is stored
            seq = self._log.add_definition(msgspec.json.encode(given))
            self._known[key] = seq, msgspec.structs.replace(given, id=seq)
            return self._run(key)

    def change(self, kind: str, name: str, **changes: Any) -> HostedProjection:
        """Change `definition`, `on_gap` or `bytes_max`. Durable on return. Another definition is
        folded from the beginning; without that the state stays, and what had failed goes on."""
        key = kind, name
        with self._lock:
            self._check_open()
            old_seq, old = self._known[key]
            new = msgspec.structs.replace(old, **changes)
            if new == old:
                return self._hosted[key]
            is_other = bytes(new.definition) != bytes(old.definition)
            if is_other:
                self._makers[kind](new)  # refuses a definition before it is stored
            seq = self._log.add_definition(msgspec.json.encode(new))
            self._known[key] = seq, new
            self._log.remove_definitions([old_seq])
            if is_other:
                self._stop(key, may_save=False)
                return self._run(key)
            held = self._hosted[key]
            held.definition, held.seq = new, seq
            held.runner.change(new.on_gap, new.bytes_max)
            held.changed()
            return held

    def drop(self, kind: str, name: str) -> bool:
        """Remove a projection with its files; false when there is none. Durable on return."""
        key = kind, name
        with self._lock:
            self._check_open()
            if key not in self._known:
                return False
            seq, definition = self._known[key]
            self._log.remove_definitions([seq])
            del self._known[key]
            self._stop(key, may_save=False)
            self._remove_folder(self._folder_of(definition))
            return True

    def check_room(self, kinds: Collection[str], count: int) -> None:
        """InvalidArgument if there can be no `count` projections of these kinds in all."""
        with self._lock:
            others = sum(kind not in kinds for kind, _ in self._known)
        if others + count > limits.PROJECTIONS_MAX:
            raise InvalidArgument(
                f"there would be {others + count} tables, parts of feature tables and indexes of "
                f"ids: expected at most {limits.PROJECTIONS_MAX}; drop some first"
            )

    # Looking.

    def find(self, kind: str, name: str) -> HostedProjection | None:
        return self._hosted.get((kind, name))

    def all(self, kind: str) -> list[HostedProjection]:
        """Of one kind, sorted by name."""
        with self._lock:
            return [self._hosted[key] for key in sorted(self._hosted) if key[0] == kind]

    def everything(self) -> list[HostedProjection]:
        """Of all kinds, sorted by kind and name."""
        with self._lock:
            return [self._hosted[key] for key in sorted(self._hosted)]

    def rebuild(self, kind: str, name: str) -> bool:
        """Fold it again from the beginning, also after it has failed."""
        found = self.find(kind, name)
        if found is None:
            return False
        found.runner.rebuild()
        found.changed()
        return True

    def upkeep(self) -> None:
        """Without threads: fold what is pending, and save what is due."""
        self._pool.upkeep()

    # Running.

    def _run(self, key: tuple[str, str]) -> HostedProjection:
        seq, definition = self._known[key]
        make = self._makers[definition.kind]
        tail = self._log.tail(definition.topic)
        options = RunnerOptions(
            on_gap=definition.on_gap,
            interval_ms=self._interval_ms,
            bytes_max=definition.bytes_max,
            own_reads_max=OWN_READS_MAX if self._log.is_threaded else _ALL_RECORDS,
        )
        runner = ProjectionRunner(
            self._log.fs,
            self._folder_of(definition),
            tail,
            lambda: make(definition),
            self._log.clock,
            options,
        )

        def changed() -> None:
            self._pool.mark(runner)

        hosted = HostedProjection(definition, seq, tail, runner, changed)
        self._hosted[key] = hosted
        self._pool.add(runner)
        tail.listen(changed)
        changed()  # for what came before the listening
        return hosted

    def _stop(self, key: tuple[str, str], *, may_save: bool) -> None:
        hosted = self._hosted.pop(key, None)
        if hosted is not None:
            hosted.tail.unlisten(hosted.changed)
            self._pool.remove(hosted.runner)
            hosted.runner.close(may_save=may_save)

    def spill_folder(self, definition: ProjectionDefinition) -> SpillFolder:
        """Where a projection puts what it does not keep in memory."""
        return SpillFolder(self._log.fs, self._folder_of(definition))

    def _folder_of(self, definition: ProjectionDefinition) -> str:
        return f"{self._log.folder}/{definition.id}"

    def _remove_folder(self, folder: str) -> None:
        """What is left of it is removed when the log is opened again."""
        fs = self._log.fs
        with contextlib.suppress(OSError):
            for name in fs.list(folder):
                fs.unlink(f"{folder}/{name}")
            fs.remove_dir(folder)
            fs.sync_dir(self._log.folder)

    def _remove_leftovers(self, folder: str) -> None:
        """Files that were not finished when a process ended: they may be as large as a state."""
        fs = self._log.fs
        with contextlib.suppress(OSError):
            for name in fs.list(folder):
                if name.endswith(".tmp"):
                    fs.unlink(f"{folder}/{name}")

    def _check_open(self) -> None:
        if self._is_closed:
            raise Closed("the log is closed")

    # Ending.

    def close(self, *, may_save: bool = True) -> None:
        """Stop the threads and save every state that is new. Call it before the log is closed. May
        be repeated."""
        self._pool.stop()
        with self._lock:
            self._is_closed = True
            for key in list(self._hosted):
                self._stop(key, may_save=may_save)
        forks.discard(self)

    def leave_to_parent(self) -> None:
        """In a forked child: the threads do not exist, and others may have held the locks."""
        left = forks.LeftToParent("log", self._owner_pid)
        self.__dict__.update(dict.fromkeys(self.__dict__, left))
