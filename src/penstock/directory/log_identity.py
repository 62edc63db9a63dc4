"""The paths in a data directory, and the identity of its log."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from penstock.codec.checksum import xxh3_64
from penstock.errors import FormatTooNew, InvalidArgument
from penstock.storage import atomic, snapshots
from penstock.storage.fs import Filesystem
from penstock.storage.segments.format import decode_index

FORMAT_NAME = "penstock.json"
LOCK_NAME = ".penstock.lock"
VERSION = 1


class _Version(msgspec.Struct, frozen=True):
    """The part of the identity file that every version keeps, so that an older version can refuse a
    directory. The checksum tells a later format from a flipped digit."""

    format: int
    format_check: str


class _Identity(msgspec.Struct, frozen=True):
    format: int
    format_check: str
    log_id: str
    checkpointed: bool  # a snapshot was finished: the WAL alone is no longer everything
    checksum: str  # of the others


def format_check(version: int) -> str:
    return f"{xxh3_64(f'penstock format {version}'.encode()):016x}"


def _identity(log_id: bytes, *, checkpointed: bool) -> _Identity:
    text = f"{VERSION} {log_id.hex()} {checkpointed}"
    checksum = f"{xxh3_64(text.encode()):016x}"
    return _Identity(VERSION, format_check(VERSION), log_id.hex(), checkpointed, checksum)


@dataclass(frozen=True, slots=True)
class DataLayout:
    root: str
    log_id: bytes
    is_checkpointed: bool

    @property
    def wal(self) -> str:
        return f"{self.root}/wal"

    @property
    def meta(self) -> str:
        return f"{self.root}/meta"

    @property
    def topics(self) -> str:
        return f"{self.root}/topics"

    @property
    def aside(self) -> str:
        """Bytes that recovery or repair removed from the log, kept for inspection."""
        return f"{self.root}/aside"

    @property
    def cache(self) -> str:
        """Cached copies of objects of the cold tier."""
        return f"{self.root}/cache"

    @property
    def projections(self) -> str:
        """The states of projections, a folder each: derived from the records."""
        return f"{self.root}/projections"

    @property
    def lock(self) -> str:
        return f"{self.root}/{LOCK_NAME}"


def read_identity(fs: Filesystem, root: str) -> DataLayout | None:
    """The content of the identity file; None when it is missing or damaged."""
    path = f"{root}/{FORMAT_NAME}"
    if not fs.exists(path):
        return None
    text = bytes(fs.map(path))
    try:
        version = msgspec.json.decode(text, type=_Version)
        if version.format > VERSION and version.format_check == format_check(version.format):
            raise FormatTooNew(
                path,
                reason=f"format {version.format}, this Penstock reads up to {VERSION}",
                hint="use the version that wrote it",
            )
        held = msgspec.json.decode(text, type=_Identity)
        log_id = bytes.fromhex(held.log_id)
    except (msgspec.MsgspecError, ValueError):
        return None
    if held != _identity(log_id, checkpointed=held.checkpointed):
        return None
    return DataLayout(root, log_id, held.checkpointed)


def read(fs: Filesystem, root: str) -> DataLayout | None:
    """The layout of an existing log. The identity is also in every snapshot, so a damaged
    identity file is replaced from there."""
    held = read_identity(fs, root)
    if held is not None:
        return held
    for number in snapshots.numbers(fs, f"{root}/meta"):
        try:
            return DataLayout(root, snapshots.read(fs, f"{root}/meta", number).log_id, True)
        except ValueError:
            continue
    return _from_segments(fs, root)


def _from_segments(fs: Filesystem, root: str) -> DataLayout | None:
    """The identity from a segment, if no other file has it."""
    for topic in fs.list(f"{root}/topics"):
        for name in fs.list(f"{root}/topics/{topic}"):
            if name.endswith(".idx"):
                try:
                    view, _ = decode_index(fs.map(f"{root}/topics/{topic}/{name}"))
                except ValueError:
                    continue
                return DataLayout(root, view.log_id, True)
    return None


def create(
    fs: Filesystem, root: str, random_bytes: Callable[[int], bytes] = secrets.token_bytes
) -> DataLayout:
    """A new identity for a new log, or for one that has lost every copy of it."""
    layout = DataLayout(root, random_bytes(16), False)
    write(fs, layout)
    return layout


def write(fs: Filesystem, layout: DataLayout) -> None:
    root = layout.root
    atomic.write_whole(fs, f"{root}/{FORMAT_NAME}", [encode(layout)])
    fs.sync_dir(root)


def encode(layout: DataLayout) -> bytes:
    """The identity file."""
    held = _identity(layout.log_id, checkpointed=layout.is_checkpointed)
    return msgspec.json.encode(held) + b"\n"


def holds_log(fs: Filesystem, root: str) -> bool:
    """True if the directory has files of Penstock."""
    return any(fs.exists(f"{root}/{name}") for name in (FORMAT_NAME, "wal", "meta", "topics"))


def require(fs: Filesystem, root: str) -> None:
    if not holds_log(fs, root):
        raise InvalidArgument(f"{root} is not a Penstock data directory (no {FORMAT_NAME} in it)")
