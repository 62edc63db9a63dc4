"""A router: copies records appended to one topic into another, and stores its cursor.

It is stored with its destination, so that its cursor and its copies change together. A topic has at
most one source, however many routers copy from it. So the number of hops of a record determines its
path, and no router copies a record back to a topic where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.entries import RouterCreated
from penstock.limits import HOPS_MAX
from penstock.types import RouterRules


class Router:
    """Only `apply_*` of its topic changes it, live and on replay."""

    __slots__ = ("cursor", "forwarded", "logged", "name", "rules", "source", "source_id")

    def __init__(
        self, name: str, source: str, source_id: int, rules: RouterRules, cursor: int
    ) -> None:
        self.name = name
        self.source = source
        self.source_id = source_id
        self.rules = rules
        self.cursor = cursor  # the last seq of the source that was looked at
        self.forwarded = 0
        self.logged = (0, 0)  # of a RAM-only topic: cursor and total as they were logged

    @staticmethod
    def of(entry: RouterCreated) -> Router:
        rules = RouterRules.of(entry.options, entry.match)
        return Router(entry.name, entry.source, entry.source_id, rules, entry.cursor)

    def obey(self, entry: RouterCreated) -> None:
        """Set other rules; the cursor stays."""
        self.rules = RouterRules.of(entry.options, entry.match)

    @property
    def kept(self) -> tuple[int, int]:
        """Cursor and total as they are after a restart."""
        return max(self.cursor, self.logged[0]), max(self.forwarded, self.logged[1])

    def went_on(self, cursor: int, count: int) -> None:
        self.cursor = max(self.cursor, cursor)
        self.forwarded += count


def cycle(sources: Mapping[str, str], source: str, dest: str) -> list[str] | None:
    """The cycle that a router from `source` to `dest` would close, beginning and ending with its
    source, or None. `sources` has the source of each topic that has one."""
    back = [source]
    at: str | None = source
    while at is not None and at != dest and len(back) <= len(sources) + 1:
        at = sources.get(at)
        if at is not None:
            back.append(at)
    if at != dest:
        return None
    return [source, *reversed(back)]


def hops_allowed(sources: Mapping[str, str], source: str, dest: str) -> int:
    """A record with this many hops or more must not be copied from `source` to `dest`: it was there
    before, or has reached the maximum."""
    at: str | None = source
    for hops in range(1, HOPS_MAX):
        at = sources.get(at) if at is not None else None
        if at == dest:
            return hops
    return HOPS_MAX


def runs_of(seqs: Sequence[int]) -> tuple[int, ...]:
    """Ascending seqs as pairs: how many are left out, how many follow."""
    runs: list[int] = []
    at = 1
    for seq in seqs:
        if runs and seq == at:
            runs[-1] += 1
        else:
            runs += (seq - at, 1)
        at = seq + 1
    return tuple(runs)


def seqs_of(runs: Sequence[int]) -> list[tuple[int, int]]:
    """The same as (first seq, how many)."""
    found: list[tuple[int, int]] = []
    at = 1
    for skipped, count in zip(runs[::2], runs[1::2], strict=True):
        found.append((at + skipped, count))
        at += skipped + count
    return found
