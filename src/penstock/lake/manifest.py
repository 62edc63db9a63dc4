"""The manifest of one commit of a table: a numbered JSON file. Pure.

The manifest with the highest number defines the table: its data files, its columns, and the offsets
up to which the log was read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from penstock.codec.checksum import xxh3_64
from penstock.errors import FormatTooNew, StorageError
from penstock.lake.evolution import Column
from penstock.types import Offset

FORMAT: Final = 1
DIRECTORY: Final = "_manifests"
ANCESTORS_MAX: Final = 512
_NAME = re.compile(r"(\d{20})\.json")
_HINT = "remove it to go back to the manifest before it; the next run reads the rest again"


@dataclass(frozen=True, slots=True)
class ReadPosition(Offset):
    """The offset up to which a table has read a topic."""

    # The topic was dropped, and the ledger has a row for it. In the file only when it is true.
    is_ended: bool | UnsetType = UNSET


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Parquet file. With a topic, it holds records of one epoch of one topic and one day."""

    part: str  # kind of rows, such as records, gaps, rows, quarantine
    path: str  # relative to the directory of the table
    rows: int
    bytes: int
    digest: str  # XXH3-64 of the whole file
    topic: str = ""
    day: str = ""
    epoch: int = 0
    first: int = 0
    last: int = 0
    dead: int = 0  # rows whose records were deleted in the log later
    since: int = 0  # the version that added its rows
    shape: int = 0  # index into the shapes of the manifest


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One commit of one table."""

    table: str
    version: int
    act: str  # ingest, ended, deletes, refine, compact or build
    made_ms: int
    format: int = FORMAT
    offsets: dict[str, ReadPosition] = {}
    columns: list[Column] = []
    shapes: list[dict[str, str]] = []  # column names and types that files were written with
    inputs: dict[str, str] = {}  # ids of the commits it was built from, by table
    skipped: list[str] = []  # topics with damaged records that were skipped
    files: list[DataFile] = []
    # Ids of the commits before this one, newest last. The file calls them `trail`.
    ancestors: list[str] = msgspec.field(name="trail", default_factory=list)

    @property
    def shape(self) -> int:
        """The shape of the present columns."""
        now = {column.name: column.kind for column in self.columns}
        return self.shapes.index(now) if now in self.shapes else 0

    def of(self, part: str) -> list[DataFile]:
        return [file for file in self.files if file.part == part]

    def rows(self, part: str) -> int:
        return sum(file.rows for file in self.files if file.part == part)


def id_of(manifest: Manifest) -> str:
    """The id of a commit. Unlike the version it is not used again after a manifest was removed."""
    return digest_text(msgspec.json.encode(manifest)) if manifest.version else ""


def following(held: Manifest, act: str, *, made_ms: int, **changes: Any) -> Manifest:
    """The next commit: this one with changes."""
    ancestors = [*held.ancestors, id_of(held)][-ANCESTORS_MAX:] if held.version else []
    version = held.version + 1
    return msgspec.structs.replace(
        held, version=version, act=act, made_ms=made_ms, ancestors=ancestors, **changes
    )


def name_of(version: int) -> str:
    """The file name, zero-padded so that names sort by version."""
    return f"{version:020d}.json"


def version_of(name: str) -> int | None:
    found = _NAME.fullmatch(name)
    return None if found is None else int(found[1])


def encode(manifest: Manifest) -> bytes:
    """The manifest on one line, its checksum on the next."""
    body = msgspec.json.encode(manifest)
    return b'%s\n{"xxh3":"%016x"}\n' % (body, xxh3_64(body))


def decode(data: bytes, path: str) -> Manifest:
    """The decoded manifest, or StorageError."""
    body, _, rest = data.partition(b"\n")
    if rest != b'{"xxh3":"%016x"}\n' % xxh3_64(body):
        raise StorageError(path, reason="wrong checksum of a manifest", hint=_HINT)
    try:
        found = msgspec.json.decode(body, type=Manifest)
    except msgspec.MsgspecError as error:
        raise StorageError(path, reason=f"not a manifest: {error}", hint=_HINT) from None
    if found.format > FORMAT:
        raise FormatTooNew(
            path, reason=f"the table has format {found.format}, this version reads up to {FORMAT}"
        )
    return found


def digest_text(data: bytes | memoryview) -> str:
    return f"{xxh3_64(data):016x}"
