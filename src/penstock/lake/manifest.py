"""What a table consists of after one commit: a numbered file of JSON. Pure.

The newest number is the table. Everything in it is decided by that one file: which data files are
read, how far the log has been read, which columns there are.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from penstock.codec.checksum import xxh3_64
from penstock.errors import FormatTooNew, StorageError
from penstock.lake.evolution import Column

FORMAT: Final = 1
DIRECTORY: Final = "_manifests"
TRAIL_MAX: Final = 512
_NAME = re.compile(r"(\d{20})\.json")
_HINT = "removing it goes back to the one before: what that misses is read again"


class Place(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything up to and including this seq of this epoch has been read."""

    epoch: int
    seq: int
    is_ended: bool = False  # the topic was dropped, and the ledger says so


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Parquet file. With a topic, it holds records of one epoch of one topic and one day."""

    part: str  # which of the table's kinds of rows
    path: str  # from the table's directory on
    rows: int
    bytes: int
    digest: str  # XXH3-64 of the whole file
    topic: str = ""
    day: str = ""
    epoch: int = 0
    first: int = 0
    last: int = 0
    dead: int = 0  # rows whose records are known to be deleted in the log since
    since: int = 0  # the version that brought its rows
    shape: int = 0  # which of the manifest's shapes its columns have


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One commit of one table."""

    table: str
    version: int
    act: str  # what was done: ingest, deletes, compact, build
    made_ms: int
    format: int = FORMAT
    offsets: dict[str, Place] = {}
    columns: list[Column] = []
    shapes: list[dict[str, str]] = []  # names and types of columns that files were written with
    inputs: dict[str, str] = {}  # what it was made of, by name
    skipped: list[str] = []  # topics that have records which could not be read
    files: list[DataFile] = []
    trail: list[str] = []  # the commits before this one by their ids, newest last

    @property
    def shape(self) -> int:
        """That of the columns as they are now."""
        now = {column.name: column.kind for column in self.columns}
        return self.shapes.index(now) if now in self.shapes else 0

    def of(self, part: str) -> list[DataFile]:
        return [file for file in self.files if file.part == part]

    def rows(self, part: str) -> int:
        return sum(file.rows for file in self.files if file.part == part)


def id_of(manifest: Manifest) -> str:
    """Which commit it is. A number is used again when somebody goes back; this is not."""
    return digest_text(msgspec.json.encode(manifest)) if manifest.version else ""


def following(held: Manifest, act: str, *, made_ms: int, **changes: Any) -> Manifest:
    """The commit after this one: what is not said to change stays."""
    trail = [*held.trail, id_of(held)][-TRAIL_MAX:] if held.version else []
    version = held.version + 1
    return msgspec.structs.replace(
        held, version=version, act=act, made_ms=made_ms, trail=trail, **changes
    )


def name_of(version: int) -> str:
    """Padded, so that a listing is in order."""
    return f"{version:020d}.json"


def version_of(name: str) -> int | None:
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


def encode(manifest: Manifest) -> bytes:
    """The value on one line, its checksum on the next."""
    body = msgspec.json.encode(manifest)
    return b'%s\n{"xxh3":"%016x"}\n' % (body, xxh3_64(body))


def decode(data: bytes, path: str) -> Manifest:
    """The manifest in these bytes, or StorageError."""
    body, _, rest = data.partition(b"\n")
    if rest != b'{"xxh3":"%016x"}\n' % xxh3_64(body):
        raise StorageError(path, reason="the checksum of this manifest differs", hint=_HINT)
    try:
        found = msgspec.json.decode(body, type=Manifest)
    except msgspec.MsgspecError as error:
        raise StorageError(path, reason=f"not a manifest: {error}", hint=_HINT) from None
    if found.format > FORMAT:
        raise FormatTooNew(path, reason=f"the table has format {found.format}, not {FORMAT}")
    return found


def digest_text(data: bytes | memoryview) -> str:
    return f"{xxh3_64(data):016x}"
