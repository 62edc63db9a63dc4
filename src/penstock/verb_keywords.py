"""Keyword options that the verbs of an embedded log and of the clients share, declared once.

Those of an append are in `append_options`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict


class FilterKeywords(TypedDict, total=False):
    """Which records a reader sees."""

    node: str | list[str] | tuple[str, ...] | None  # leave out the records of these nodes
    tag: Any  # only records with this tag; a trailing `*` matches a prefix


class FollowKeywords(FilterKeywords, total=False):
    """Options of `follow`."""

    timeout_s: float | None  # end after this time without a record or gap


class ReadKeywords(FilterKeywords, total=False):
    """Options of a read."""

    epoch: int | None  # of the last page: detects a topic that was created again
    max_bytes: int | None  # of the page


class JsonKeywords(ReadKeywords, total=False):
    """Options of a read that returns JSON."""

    include_tags: bool
    include_meta: bool
    include_data: bool


class ColumnsKeywords(ReadKeywords, total=False):
    """Options of a read that returns columns."""

    columns: int | Sequence[str]  # names among node, tag, meta and data, or their bits [data]


class RedriveKeywords(TypedDict, total=False):
    """Which dead letters move, and where to."""

    to: str | None  # instead of the queue that each came from
    seqs: Sequence[int]  # only these
    tag: Any  # only those with this tag; a trailing `*` matches a prefix
    after: int  # only those after this seq
    limit: int  # at most this many in one call [100]
    dry_run: bool  # move nothing, and return what would move


class RouterKeywords(TypedDict, total=False):
    """The rules of a router."""

    filter: Any  # only records with this tag; a trailing `*` matches a prefix
    preserve_node: bool
    preserve_tag: bool
    allow_cycle: bool
    exactly_once: bool  # store the origin of each copy in its meta
    create_dest: bool
