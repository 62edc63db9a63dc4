"""The read verbs: check the options, bring the topic up to date, read one page."""

from __future__ import annotations

from penstock.codec.columns import ColumnsPage, bits_of
from penstock.engine import read as reads
from penstock.engine.core import LogCore
from penstock.types import FramesPage, JsonPage, Page
from penstock.verb_keywords import ColumnsKeywords, JsonKeywords, ReadKeywords


def read(core: LogCore, topic: str, after: int, limit: int | None, options: ReadKeywords) -> Page:
    """A page of values."""
    return reads.read(core.readable(topic, after), after, *reads.parsed(limit, options))


def read_json(
    core: LogCore, topic: str, after: int, limit: int | None, options: JsonKeywords
) -> JsonPage:
    """A page as one JSON array, in the form of the HTTP API."""
    shown: JsonKeywords = {"include_tags": False, **options}
    wanted = reads.parsed(limit, shown, is_wire=True)
    return reads.read_json(core.readable(topic, after), after, *wanted)


def read_frames(
    core: LogCore, topic: str, after: int, limit: int | None, options: ReadKeywords
) -> FramesPage:
    """A page of frames."""
    wanted = reads.parsed(limit, options)
    return reads.read_frames(core.readable(topic, after), after, *wanted)


def read_columns(
    core: LogCore, topic: str, after: int, limit: int | None, options: ColumnsKeywords
) -> ColumnsPage:
    """A page column by column."""
    given: ColumnsKeywords = {"columns": ("data",), **options}
    bits = bits_of(given.pop("columns"))
    wanted = reads.parsed(limit, given)
    return reads.read_columns(core.readable(topic, after), after, *wanted, bits)
