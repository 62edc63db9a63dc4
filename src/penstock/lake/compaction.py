"""Chooses the small files that compaction merges. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

import msgspec

from penstock.lake.manifest import DataFile
from penstock.lake.project import Compaction

Group = list[DataFile]


def chosen(files: Iterable[DataFile], rules: Compaction) -> list[Group]:
    """Groups of files to merge into one each. A group has one part, topic, epoch and day."""
    small = [file for file in files if file.bytes < rules.small_bytes]
    found: list[Group] = []
    for _, held in groupby(sorted(small, key=_order), key=_key):
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
    """The groups in layers, with at most one group of a topic, epoch and day in each layer: Spark
    would write two such groups into one file."""
    found: list[list[Group]] = []
    taken: list[set[tuple[str, str, int, str]]] = []
    for group in groups:
        where = _key(group[0])
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


def _key(file: DataFile) -> tuple[str, str, int, str]:
    return file.part, file.topic, file.epoch, file.day


def _order(file: DataFile) -> tuple[str, str, int, str, int]:
    return *_key(file), file.first


def inherited(groups: Iterable[Group], made: Iterable[DataFile]) -> list[DataFile]:
    """The new files with the counts of the files that they replace. AssertionError unless each
    group became one file with all its rows."""
    by_key = {_key(file): file for file in made}
    found = []
    for group in groups:
        file = by_key.pop(_key(group[0]), None)
        rows = sum(one.rows for one in group)
        if file is None or file.rows != rows:
            raise AssertionError(("compaction changed rows", _key(group[0]), rows, file))
        dead, since = sum(one.dead for one in group), max(one.since for one in group)
        found.append(msgspec.structs.replace(file, dead=dead, since=since))
    if by_key:
        raise AssertionError(("compaction made rows", sorted(by_key)))
    return found
