"""Finds the files that may hold records which were deleted in the log later. Pure.

Bronze has read all live records up to its offsets. So in any range it holds at least the records
that are still live; if the counts are equal, the records are the same. Only files whose counts
differ have to be compared record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from penstock.lake.counts import LogCounts, TopicFacts
from penstock.lake.manifest import DataFile


def suspects(
    files: Iterable[DataFile], counts: LogCounts, skipped: Iterable[str] = ()
) -> list[DataFile]:
    """Files of the present epochs whose counts differ. Evicted and expired records, and records of
    dropped topics, do not count as deleted."""
    unsure = set(skipped)
    found: list[DataFile] = []
    for topic, held in groupby(sorted(files, key=_order), key=lambda file: file.topic):
        facts = counts.topics.get(topic)
        if facts is None:
            continue
        here = [f for f in held if f.epoch == facts.epoch and f.last > facts.lost_floor]
        if topic in unsure:  # live records were skipped, so counts cannot be compared
            found += here
        elif here and counts.live(topic, 1, 0) is None:
            if sum(file.rows - file.dead for file in here) != facts.live or _is_cut(here, facts):
                found += here
        else:
            found += _by_range(here, facts, counts)
    return found


def _by_range(files: list[DataFile], facts: TopicFacts, counts: LogCounts) -> Iterator[DataFile]:
    for group in _clusters(files):
        first, last = group[0].first, max(file.last for file in group)
        held = sum(file.rows - file.dead for file in group)
        if _is_cut(group, facts) or held != counts.live(facts.name, first, last):
            yield from group


def _clusters(files: list[DataFile]) -> Iterator[list[DataFile]]:
    """Groups of files whose ranges overlap."""
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
    """Whether records were lost in the range of these files, so that counts cannot be compared."""
    first, last = min(f.first for f in files), max(f.last for f in files)
    return first <= facts.lost_floor or any(
        low <= last and high >= first for low, high in facts.losses
    )


def _order(file: DataFile) -> tuple[str, int, int]:
    return file.topic, file.epoch, file.first
