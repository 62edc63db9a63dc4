"""Which files may hold records that were deleted in the log since they were read. Pure.

All live records up to a place have been read. So the records of a range that are held and not known
to be deleted are at least those that live there, and when there are as many they are the same. Only
files where the numbers differ have to be looked into.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from penstock.lake.census import Census, TopicFacts
from penstock.lake.manifest import DataFile


def suspects(
    files: Iterable[DataFile], census: Census, skipped: Iterable[str] = ()
) -> list[DataFile]:
    """Files with records of topics as they are now. What a log let go of by itself, and what
    was dropped with its topic, is nobody's delete."""
    unsure = set(skipped)
    found: list[DataFile] = []
    for topic, held in groupby(sorted(files, key=_order), key=lambda file: file.topic):
        facts = census.topics.get(topic)
        if facts is None:
            continue
        here = [f for f in held if f.epoch == facts.epoch and f.last > facts.lost_floor]
        if topic in unsure:  # records that live and are not held: numbers tell nothing
            found += here
        elif here and census.live(topic, 1, 0) is None:
            if sum(file.rows - file.dead for file in here) != facts.live or _is_cut(here, facts):
                found += here
        else:
            found += _by_range(here, facts, census)
    return found


def _by_range(files: list[DataFile], facts: TopicFacts, census: Census) -> Iterator[DataFile]:
    for group in _clusters(files):
        first, last = group[0].first, max(file.last for file in group)
        held = sum(file.rows - file.dead for file in group)
        if _is_cut(group, facts) or held != census.live(facts.name, first, last):
            yield from group


def _clusters(files: list[DataFile]) -> Iterator[list[DataFile]]:
    """Files whose ranges overlap, together."""
    group: list[DataFile] = []
    last = -1
    for file in files:
        if group and file.first > last:
            yield group
            group = []
        group.append(file)
        last = max(last, file.last)
    if group:
        yield group


def _is_cut(files: list[DataFile], facts: TopicFacts) -> bool:
    """Whether something was lost within their range, so that live records are not all there is."""
    first, last = min(f.first for f in files), max(f.last for f in files)
    return first <= facts.lost_floor or any(
        low <= last and high >= first for low, high in facts.losses
    )


def _order(file: DataFile) -> tuple[str, int, int]:
    return file.topic, file.epoch, file.first
