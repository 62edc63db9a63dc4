"""A folder with the state of one projection in several files, made by others than its log.

`docs/format/state-folder.md` is the normative text. Each file is as `checkpoint` writes it, and has
the state of some keys. The list of the files is written last: without it the folder is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.errors import InvalidArgument
from penstock.projections import checkpoint
from penstock.projections.checkpoint import CheckpointIdentity, StoredProjection
from penstock.storage import atomic
from penstock.storage.fs import Buffer, Filesystem
from penstock.types import Offset

FORMAT_VERSION: Final = 1
LIST_NAME: Final = "state.json"
_FILE_NAME = re.compile(r"[0-9a-zA-Z_-]{1,64}\.bin")


class StateList(msgspec.Struct, frozen=True):
    """What the folder holds. `definition` is the JSON of the projection's definition."""

    format: int
    log: str  # hex
    topic: str
    kind: str
    version: int
    definition: msgspec.Raw
    epoch: int
    seq: int
    created: int  # ms
    files: list[str]
    more: dict[str, Any] = {}  # for whoever wrote it; not used to load it

    @property
    def identity(self) -> CheckpointIdentity:
        return CheckpointIdentity(
            bytes.fromhex(self.log), self.topic, self.kind, self.version, bytes(self.definition)
        )

    @property
    def offset(self) -> Offset:
        return Offset(self.epoch, self.seq)


@dataclass(frozen=True, slots=True)
class StateFolder:
    """A folder whose files were verified, every byte."""

    path: str
    state: StateList
    files: list[StoredProjection]


def list_of(
    identity: CheckpointIdentity, offset: Offset, created_ms: int, files: Iterable[str], **more: Any
) -> StateList:
    """The list for these files."""
    return StateList(
        FORMAT_VERSION,
        identity.log_id.hex(),
        identity.topic,
        identity.kind,
        identity.version,
        msgspec.Raw(identity.definition),
        offset.epoch,
        offset.seq,
        created_ms,
        sorted(files),
        more,
    )


def write_file(
    fs: Filesystem,
    path: str,
    name: str,
    identity: CheckpointIdentity,
    offset: Offset,
    created_ms: int,
    parts: Iterable[Buffer],
    before_rename: Callable[[], None] = lambda: None,
) -> int:
    """Write one of the files; its bytes. Durable on return."""
    return checkpoint.write(
        fs, f"{path}/{name}", identity, offset, created_ms, parts, before_rename
    )


def commit(fs: Filesystem, path: str, state: StateList) -> None:
    """Make these files the content of the folder, and remove all others. Durable on return; a crash
    leaves the content before or this one."""
    atomic.write_whole(fs, f"{path}/{LIST_NAME}", [msgspec.json.encode(state)])
    fs.sync_dir(path)
    for name in fs.list(path):
        if name.endswith((".bin", ".tmp")) and name not in state.files:
            fs.unlink(f"{path}/{name}")


def load_list(fs: Filesystem, path: str) -> StateList | None:
    """The list of the folder; None when there is none. InvalidArgument: it cannot be read."""
    try:
        text = bytes(fs.map(f"{path}/{LIST_NAME}"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}/{LIST_NAME}: {error.strerror}") from None
    try:
        state = msgspec.json.decode(text, type=StateList)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path}/{LIST_NAME} is damaged: {error}") from None
    if state.format != FORMAT_VERSION:
        raise InvalidArgument(
            f"{path}/{LIST_NAME} has format version {state.format}: expected {FORMAT_VERSION}"
        )
    for name in state.files:
        if not _FILE_NAME.fullmatch(name):
            raise InvalidArgument(f"{path}/{LIST_NAME} names a file {name!r} that cannot be one")
    return state


def load(fs: Filesystem, path: str) -> StateFolder:
    """Map all files and verify them. InvalidArgument for a folder that is not whole."""
    state = load_list(fs, path)
    if state is None:
        raise InvalidArgument(
            f"{path} has no {LIST_NAME}: expected a folder of `penstock features backfill` that "
            "was finished, at the same path here as there"
        )
    if not state.files:
        raise InvalidArgument(f"{path} has no state yet: no records were folded into it")
    return StateFolder(path, state, [load_file(fs, path, name, state) for name in state.files])


def load_file(fs: Filesystem, path: str, name: str, state: StateList) -> StoredProjection:
    """Map one of the files of a list and verify it. InvalidArgument: it is not what was listed."""
    try:
        stored = checkpoint.load(fs, f"{path}/{name}")
    except FileNotFoundError:
        raise InvalidArgument(f"{path}/{name} is missing, and {LIST_NAME} names it") from None
    except (ValueError, OSError) as error:
        raise InvalidArgument(f"{path}/{name} cannot be used: {error}") from None
    why = stored.differs(state.identity)
    if why is None and stored.offset != state.offset:
        why = f"it is as of seq {stored.offset.seq}, not {state.seq}"
    if why is not None:
        raise InvalidArgument(f"{path}/{name} is not the one that was listed: {why}")
    return stored
