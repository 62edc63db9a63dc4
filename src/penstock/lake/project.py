"""The pipeline that a project file declares. Pure."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from penstock.errors import InvalidArgument
from penstock.lake.column_types import kind_of
from penstock.lake.evolution import COLUMNS_MAX, Column
from penstock.storage.tiers.objects import is_url

FILE: Final = "pipeline.toml"
LOG_COLUMNS: Final = ("topic", "epoch", "seq", "ts", "node", "tag", "day")
EPOCH_OF_FILE: Final = "epoch_of_file"  # a column while files are written
UNDECODABLE: Final = "__bad"  # a field while records are decoded
OWN_NAMES: Final = (EPOCH_OF_FILE, UNDECODABLE)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RESERVED = ("bronze", "gaps")
_PATTERN = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._:*-]{0,254}")
_GLOB = re.compile(r"[*?\[\]{}\\]")


@dataclass(frozen=True, slots=True)
class Source:
    """The log: a data directory, a server, or a server and the directory that it writes."""

    path: str
    url: str
    token_env: str
    topics: tuple[str, ...]

    def matches(self, topic: str) -> bool:
        return matches(self.topics, topic)


@dataclass(frozen=True, slots=True)
class Lake:
    """Where the tables are, how many records a commit has, and how many commits are kept."""

    path: str
    batch_records: int
    keep_versions: int


@dataclass(frozen=True, slots=True)
class Compaction:
    """Merge files of one topic and day if at least `files_min` have less than `small_bytes`."""

    files_min: int
    small_bytes: int
    target_bytes: int


@dataclass(frozen=True, slots=True)
class Silver:
    """A table with typed columns for the topics that match."""

    name: str
    topics: tuple[str, ...]
    columns: tuple[Column, ...]
    evolve: bool
    applies_deletes: bool

    def matches(self, topic: str) -> bool:
        return matches(self.topics, topic)


@dataclass(frozen=True, slots=True)
class Gold:
    """A table that is built from the others by an SQL file or by `file.py:function`."""

    name: str
    sql: str
    python: str


@dataclass(frozen=True, slots=True)
class Project:
    """The whole project. Paths are absolute."""

    root: str
    source: Source
    lake: Lake
    compaction: Compaction
    silver: tuple[Silver, ...]
    gold: tuple[Gold, ...]


def matches(patterns: Sequence[str], topic: str) -> bool:
    return any(fnmatchcase(topic, pattern) for pattern in patterns)


def parsed(text: str, root: str) -> Project:
    """Parse a project. Relative paths start at `root`. InvalidArgument names the wrong key."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"{FILE} is not TOML: {error}") from None
    top = _Section("", given, ("source", "lake", "compaction", "silver", "gold"))
    source = _source(top.section("source", ("path", "url", "token_env", "topics")), root)
    silver = tuple(_silver(name, values) for name, values in top.tables("silver"))
    gold = tuple(_gold(name, values, root) for name, values in top.tables("gold"))
    _check_tables([one.name for one in silver], [one.name for one in gold])
    return Project(root, source, _lake(top, root), _compaction(top), silver, gold)


def _check_tables(silver: Sequence[str], gold: Sequence[str]) -> None:
    """The names of tables and quarantines must differ."""
    bad = {f"{name}_quarantine" for name in silver}
    for name in silver:
        if name in bad:
            raise InvalidArgument(f"silver.{name}: a quarantine has this name already")
    for name in gold:
        if name in silver or name in bad:
            kind = "silver table" if name in silver else "quarantine"
            raise InvalidArgument(f"gold.{name}: a {kind} has this name already")


class _Section:
    """A table of the TOML file. Unknown keys are refused."""

    def __init__(self, where: str, given: object, known: Sequence[str]) -> None:
        if not isinstance(given, Mapping):
            raise InvalidArgument(f"{where} must be a table, [{where}]")
        self.where = where
        self._given: Mapping[str, Any] = given
        for key in given:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0.5)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise InvalidArgument(f"unknown key {self.key(key)}: {hint}")

    def key(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def has(self, name: str) -> bool:
        return name in self._given

    def section(self, name: str, known: Sequence[str]) -> _Section:
        return _Section(self.key(name), self._given.get(name, {}), known)

    def tables(self, name: str) -> list[tuple[str, Any]]:
        held = self._given.get(name, {})
        if not isinstance(held, Mapping):
            raise InvalidArgument(f"{self.key(name)} must be tables, [{self.key(name)}.orders]")
        for key in held:
            if not _NAME.fullmatch(key) or key in _RESERVED:
                raise InvalidArgument(
                    f"{self.key(name)}.{key}: a table's name is small letters, digits and _, "
                    f"begins with a letter and is not {' or '.join(_RESERVED)}"
                )
        return list(held.items())

    def text(self, name: str, default: str = "") -> str:
        value = self._given.get(name, default)
        if not isinstance(value, str):
            raise InvalidArgument(f"{self.key(name)} must be a string, not {value!r}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._given.get(name, default)
        if not isinstance(value, bool):
            raise InvalidArgument(f"{self.key(name)} must be true or false, not {value!r}")
        return value

    def number(self, name: str, default: int, least: int = 1) -> int:
        value = self._given.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidArgument(
                f"{self.key(name)} must be a whole number of at least {least}, not {value!r}"
            )
        return value

    def patterns(self, name: str) -> tuple[str, ...]:
        value = self._given.get(name)
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not value:
            raise InvalidArgument(
                f'{self.key(name)} is missing: give topics or patterns, such as ["orders"]'
            )
        for one in value:
            if not isinstance(one, str) or not _PATTERN.fullmatch(one):
                raise InvalidArgument(
                    f"{self.key(name)}: {one!r} is neither a topic name nor a pattern"
                )
        return tuple(dict.fromkeys(value))


def _source(section: _Section, root: str) -> Source:
    path, url = section.text("path"), section.text("url")
    if not path and not url:
        raise InvalidArgument(
            "source is missing: set source.path (a data directory or a cold tier) or source.url "
            "(a server)"
        )
    if url and not url.startswith(("http://", "https://")):
        raise InvalidArgument(f"source.url must begin with http:// or https://, not {url!r}")
    if section.has("token_env") and not url:
        raise InvalidArgument("source.token_env needs source.url")
    return Source(
        path if not path or is_url(path) else _inside(root, path),
        url,
        section.text("token_env", "PENSTOCK_TOKEN"),
        section.patterns("topics"),
    )


def _lake(top: _Section, root: str) -> Lake:
    section = top.section("lake", ("path", "batch_records", "keep_versions"))
    path = _inside(root, section.text("path", "lake"))
    if _GLOB.search(path):
        raise InvalidArgument(f"lake.path must have none of * ? [ ] {{ }} \\ in it: {path}")
    return Lake(
        path, section.number("batch_records", 2_000_000), section.number("keep_versions", 10)
    )


def _compaction(top: _Section) -> Compaction:
    section = top.section("compaction", ("files_min", "small_bytes", "target_bytes"))
    found = Compaction(
        section.number("files_min", 8, 2),
        section.number("small_bytes", 32 << 20),
        section.number("target_bytes", 128 << 20),
    )
    if found.small_bytes > found.target_bytes:
        raise InvalidArgument("compaction.small_bytes must not be above compaction.target_bytes")
    return found


def _silver(name: str, given: Any) -> Silver:
    section = _Section(f"silver.{name}", given, ("topics", "columns", "evolve", "deletes"))
    columns = _columns(section, given)
    deletes = section.text("deletes", "apply")
    if deletes not in ("apply", "ignore"):
        raise InvalidArgument(f"{section.key('deletes')} must be apply or ignore, not {deletes!r}")
    return Silver(
        name, section.patterns("topics"), columns, section.flag("evolve", False), deletes == "apply"
    )


def _columns(section: _Section, given: Mapping[str, Any]) -> tuple[Column, ...]:
    held = given.get("columns", {})
    where = section.key("columns")
    if not isinstance(held, Mapping) or not held:
        raise InvalidArgument(f'{where} is missing: give names with types, such as id = "long"')
    if len(held) > COLUMNS_MAX:
        raise InvalidArgument(f"{where}: at most {COLUMNS_MAX} columns")
    found: list[Column] = []
    seen: set[str] = set()
    fields: set[str] = set()
    for name, value in held.items():
        if name.lower() in LOG_COLUMNS:
            raise InvalidArgument(
                f"{where}.{name}: records have a column of this name: choose another one and set "
                f'{{ type = "…", from = "{name}" }}'
            )
        _check_name(f"{where}.{name}", name)
        if name.lower() in seen:
            raise InvalidArgument(
                f"{where}.{name}: another column has this name in other letter case"
            )
        seen.add(name.lower())
        spec = {"type": value} if isinstance(value, str) else value
        column = _Section(f"{where}.{name}", spec, ("type", "from", "required"))
        if not column.has("type"):
            raise InvalidArgument(f'{column.where}.type is missing: give a type, such as "long"')
        try:
            kind = kind_of(column.text("type"))
        except InvalidArgument as error:
            raise InvalidArgument(f"{column.where}: {error}") from None
        field = column.text("from", name) or name
        if field.lower() in fields:
            raise InvalidArgument(f"{column.where}: another column has from = {field!r} already")
        _check_name(f"{column.where}.from", field)
        fields.add(field.lower())
        found.append(Column(name, kind, field, column.flag("required", False)))
    return tuple(found)


def _check_name(where: str, name: str) -> None:
    if not name.isprintable() or not name.strip():
        raise InvalidArgument(f"{where}: invalid column name {name!r}: it must be printable")
    if name.lower() in OWN_NAMES:
        raise InvalidArgument(f"{where}: the pipeline uses the name {name!r} itself")


def _gold(name: str, given: Any, root: str) -> Gold:
    section = _Section(f"gold.{name}", given, ("sql", "python"))
    sql, python = section.text("sql"), section.text("python")
    if bool(sql) == bool(python):
        raise InvalidArgument(
            f'gold.{name} needs either sql = "file.sql" or python = "file.py:function"'
        )
    if python:
        file, colon, function = python.rpartition(":")
        if not colon or not file or not function.isidentifier():
            raise InvalidArgument(f'gold.{name}.python must have the form "gold.py:revenue"')
        python = f"{_inside(root, file)}:{function}"
    return Gold(name, _inside(root, sql) if sql else "", python)


def _inside(root: str, path: str) -> str:
    return os.path.normpath(os.path.join(root, os.path.expanduser(path)))
