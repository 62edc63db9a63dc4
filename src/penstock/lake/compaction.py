"""Which small files are to become larger ones. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import msgspec

from penstock.lake.manifest import DataFile
from penstock.lake.project import Compaction

Group = list[DataFile]


def chosen(files: Iterable[DataFile], rules: Compaction) -> list[Group]:
    """Groups of files that become one file each: of one kind of rows, topic, epoch and day."""
    small = [file for file in files if file.bytes < rules.small_bytes]
    found: list[Group] = []
    for _, held in groupby(sorted(small, key=_order), key=_place):
        group: Group = []
        size = 0
        for file in held:
            if group and size + file.bytes > rules.target_bytes:
                _keep(found, group, rules)
                group, size = [], 0
            group.append(file)
            size += file.bytes
        _keep(found, group, rules)
    return found


def layers(groups: Iterable[Group]) -> list[list[Group]]:
    """The groups such that no two of a layer are of the same place: one task would put them into
    one file."""
    found: list[list[Group]] = []
    taken: list[set[tuple[str, str, int, str]]] = []
    for group in groups:
        where = _place(group[0])
        at = next((at for at, held in enumerate(taken) if where not in held), len(found))
        if at == len(found):
            found.append([])
            taken.append(set())
        found[at].append(group)
        taken[at].add(where)
    return found


def _keep(found: list[Group], group: Group, rules: Compaction) -> None:
    if len(group) >= rules.files_min:
        found.append(group)


def _place(file: DataFile) -> tuple[str, str, int, str]:
    return file.part, file.topic, file.epoch, file.day


def _order(file: DataFile) -> tuple[str, str, int, str, int]:
    return *_place(file), file.first


def inherited(groups: Iterable[Group], made: Iterable[DataFile]) -> list[DataFile]:
    """New files with what is known of those they replace. AssertionError unless each group has
    become one file with all its rows."""
    by_place = {_place(file): file for file in made}
    found = []
    for group in groups:
        file = by_place.pop(_place(group[0]), None)
        rows = sum(one.rows for one in group)
        if file is None or file.rows != rows:
            raise AssertionError(("compaction changed rows", _place(group[0]), rows, file))
        dead, since = sum(one.dead for one in group), max(one.since for one in group)
        found.append(msgspec.structs.replace(file, dead=dead, since=since))
    if by_place:
        raise AssertionError(("compaction made rows", sorted(by_place)))
    return found
