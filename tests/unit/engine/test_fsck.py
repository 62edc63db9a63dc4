from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.engine.fsck import CheckReport, check
from penstock.errors import DirectoryInUse, InvalidArgument
from penstock.testing import MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from tests.unit.engine import harms

Harm = Callable[[MemoryFilesystem], None]
HARMS: list[tuple[Harm, str, str]] = [
    (harms.wal_record_flipped, "damage", ".log"),
    (harms.last_wal_record_flipped, "damage", ".log"),
    (harms.wal_cut, "damage", ".log"),
    (harms.segment_record_flipped, "damage", ".data"),
    (harms.segment_cut, "damage", ".data"),
    (harms.segment_removed, "damage", ".data"),
    (harms.mark_flipped, "derived", "durable.mark"),
    (harms.newest_snapshot_flipped, "derived", ".bin"),
    (harms.older_snapshot_flipped, "derived", ".bin"),
    (harms.index_flipped, "derived", ".idx"),
    (harms.index_removed, "derived", ".idx"),
    (harms.tags_flipped, "derived", ".tags"),
    (harms.identity_flipped, "derived", "penstock.json"),
]


def report_after(harm: Harm) -> CheckReport:
    """The report, and the promise that checking changes nothing."""
    fs = harms.sample()
    harm(fs)
    before = fs.fingerprint()
    report = check(fs, ROOT)
    assert fs.fingerprint() == before
    return report


def test_a_healthy_directory_is_clean_and_counted() -> None:
    report = report_after(harms.nothing)

    assert (report.is_clean, report.problems, report.torn) == (True, [], 0)
    assert report.records == 9
    assert report.frames >= report.records
    wal_files, segment_files, snapshot_files = 2, 6, 2
    assert report.files == wal_files + segment_files + snapshot_files


def test_an_unfinished_write_at_the_end_is_normal() -> None:
    report = report_after(harms.torn_tail)

    assert (report.is_clean, report.torn) == (True, 1)


@pytest.mark.parametrize(
    ("harm", "kind", "ending"), HARMS, ids=lambda v: getattr(v, "__name__", "")
)
def test_every_harm_is_found_where_it_is(harm: Harm, kind: str, ending: str) -> None:
    report = report_after(harm)

    assert not report.is_clean
    (problem,) = report.problems
    assert problem.kind == kind
    assert problem.path.endswith(ending)
    assert problem.reason
    assert problem.hint
    assert (problem.offset is not None) == (kind == "damage" and harm is not harms.segment_removed)


def test_several_harms_are_several_problems() -> None:
    def both(fs: MemoryFilesystem) -> None:
        harms.index_flipped(fs)
        harms.segment_cut(fs)
        harms.wal_record_flipped(fs)

    assert sorted(problem.kind for problem in report_after(both).problems) == [
        "damage",
        "damage",
        "derived",
    ]


def test_a_quick_look_leaves_the_segments_out() -> None:
    fs = harms.sample()
    harms.segment_record_flipped(fs)

    assert check(fs, ROOT, skip_data=True).is_clean


def test_a_directory_in_use_is_left_alone() -> None:
    fs = MemoryFilesystem()
    with open_memory_log(fs), pytest.raises(DirectoryInUse):
        check(fs, ROOT)

    assert check(fs, ROOT).is_clean


def test_any_directory_will_not_do() -> None:
    fs = MemoryFilesystem()
    fs.make_dirs(ROOT)

    with pytest.raises(InvalidArgument, match="not a Penstock data directory"):
        check(fs, ROOT)


def test_progress_counts_the_segments() -> None:
    seen: list[tuple[int, int]] = []

    check(harms.sample(), ROOT, lambda *step: seen.append(step))

    assert seen == [(0, 2), (1, 2), (2, 2)]
