"""The server with one promise broken at a time, to see that the rigs notice.

`apply` breaks this process for good; `launch` calls it in a server's own.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable
from typing import Any

from penstock.atomic_steps import Step
from penstock.engine import open_log, opening
from penstock.engine.append import Appender
from penstock.server import descriptor_limit, last_event_id
from penstock.server.feeds import Feed
from penstock.server.http.exchange import EndlessBody
from penstock.server.websocket_commands import WebSocketCommands
from penstock.storage.fs import OsFile
from penstock.storage.wal.pending_commit import PendingCommit
from penstock.storage.wal.shard import Shard

Patch = tuple[object, str, Any]  # where, name, what instead


def _ack_before_write() -> list[Patch]:
    """A record is acknowledged when it was queued; a slow disk makes that visible soon."""
    submit, write = Shard.submit, Shard._write
    pause = threading.Event()

    def hasty(self: Shard, commit: PendingCommit, steps: Iterable[Step] = ()) -> None:
        if not isinstance(commit.subject, tuple):  # not an append
            submit(self, commit, steps)
            return
        callback, commit.callback = commit.callback, None
        submit(self, commit, steps)
        if callback is not None:
            callback(commit)

    def slow(self: Shard, commits: list[PendingCommit], size: int) -> None:
        pause.wait(0.005)
        write(self, commits, size)

    return [(Shard, "submit", hasty), (Shard, "_write", slow)]


def _keys_forgotten_at_restart() -> list[Patch]:
    """Idempotency keys live in memory only."""
    open_parts = opening.open_parts

    def forgetful(*given: Any) -> opening.LogContext:
        parts = open_parts(*given)
        for handle in parts.handles.values():
            handle.topic.keys.clear()
        return parts

    return [(opening, "open_parts", forgetful), (open_log.opening, "open_parts", forgetful)]


def _keys_ignored() -> list[Patch]:
    """A key that is not under way right now is as good as new."""
    return [(Appender, "_seen", lambda self, handle, key, now_ms: None)]


def _wake_up_dropped() -> list[Patch]:
    """One wake-up in four never reaches the event loop."""
    notify = Feed.notify
    numbers = itertools.count(1)

    def sometimes(self: Feed) -> None:
        if next(numbers) % 4:
            notify(self)

    return [(Feed, "notify", sometimes)]


def _resume_ignored() -> list[Patch]:
    """A stream goes on where it was cut, whatever its reader says it has."""
    return [(last_event_id, "rewind", lambda cursors, last_id: None)]


def _endless_buffers() -> list[Patch]:
    """Streams are written to whether their peer reads or not."""
    never = property(lambda self: False)
    return [(EndlessBody, "is_full", never), (WebSocketCommands, "is_full", never)]


def _connections_unbounded() -> list[Patch]:
    """Strangers may take every descriptor there is."""
    return [(descriptor_limit, "bounded", lambda wanted: wanted)]


def _full_disk_shrugged_off() -> list[Patch]:
    """What the disk refuses is acknowledged all the same, whichever call it refuses."""

    def deaf(call: Callable[..., None]) -> Callable[..., None]:
        def calls(self: OsFile, *given: Any, **named: Any) -> None:
            with contextlib.suppress(OSError):
                call(self, *given, **named)

        return calls

    names = ("write_at", "write_parts_at", "allocate", "sync")
    return [(OsFile, name, deaf(getattr(OsFile, name))) for name in names]


MUTANTS: dict[str, Callable[[], list[Patch]]] = {
    "ack-before-write": _ack_before_write,
    "keys-forgotten-at-restart": _keys_forgotten_at_restart,
    "keys-ignored": _keys_ignored,
    "wake-up-dropped": _wake_up_dropped,
    "resume-ignored": _resume_ignored,
    "endless-buffers": _endless_buffers,
    "connections-unbounded": _connections_unbounded,
    "full-disk-shrugged-off": _full_disk_shrugged_off,
}


def apply(name: str | None) -> None:
    """Break this process; none or an empty name leaves it as it is."""
    for where, attribute, instead in MUTANTS[name]() if name else ():
        setattr(where, attribute, instead)
