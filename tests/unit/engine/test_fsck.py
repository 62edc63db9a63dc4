from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.directory import log_identity
from penstock.directory.directory_view import look
from penstock.engine.fsck import CheckReport, check
from penstock.engine.repair import repair
from penstock.errors import DirectoryInUse, InvalidArgument
from penstock.projections import checkpoint
from penstock.projections.checkpoint import CheckpointIdentity
from penstock.projections.runner import FILE_NAME
from penstock.projections.spill import SPILL_NAME
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.log import ROOT, open_memory_log
from penstock.types import Offset
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


# States of projections.


def with_state(harm: Callable[[MemoryFilesystem, str], None], name: str = "1") -> MemoryFilesystem:
    """A healthy directory with the state of one projection, and the harm done to it."""
    fs = harms.sample()
    layout = log_identity.read(fs, ROOT)
    assert layout is not None
    folder = f"{layout.projections}/{name}"
    fs.make_dirs(folder)
    identity = CheckpointIdentity(layout.log_id, "t", "table", 1, b"{}")
    checkpoint.write(
        fs, f"{folder}/{FILE_NAME}", identity, Offset(1, 3), 1_000, [b"part", b"another"]
    )
    harm(fs, folder)
    return fs


def add_file(fs: MemoryFilesystem, path: str) -> None:
    file = fs.create(path)
    file.write_at(b"x", 0)
    file.close()


@pytest.mark.parametrize("name", [f"{FILE_NAME}.tmp", SPILL_NAME])
def test_a_sound_state_and_what_a_crash_left_of_one_are_no_problem(name: str) -> None:
    fs = with_state(lambda fs, folder: add_file(fs, f"{folder}/{name}"))

    report = check(fs, ROOT)

    assert (report.is_clean, report.problems) == (True, [])


@pytest.mark.parametrize(
    ("harm", "path", "reason"),
    [
        (lambda fs, folder: fs.corrupt(f"{folder}/{FILE_NAME}", 90), f"1/{FILE_NAME}", ""),
        (lambda fs, folder: fs.truncate_at(f"{folder}/{FILE_NAME}", 9), f"1/{FILE_NAME}", ""),
        (lambda fs, folder: add_file(fs, f"{folder}/other"), "1/other", "not a file"),
        (lambda fs, folder: add_file(fs, f"{folder}x"), "1x", "not the folder"),
    ],
    ids=["flipped", "cut", "foreign file", "foreign entry"],
)
def test_a_bad_state_is_derived_and_no_reason_to_repair(
    harm: Callable[[MemoryFilesystem, str], None], path: str, reason: str
) -> None:
    fs = with_state(harm)
    before = fs.fingerprint()

    [problem] = check(fs, ROOT).problems

    assert fs.fingerprint() == before
    assert (problem.kind, problem.path) == ("derived", f"{ROOT}/projections/{path}")
    assert reason in problem.reason


def test_no_tool_removes_what_is_in_the_folder_of_projections() -> None:
    fs = with_state(lambda fs, folder: add_file(fs, f"{folder}/other"), "of-a-later-version")
    kept = [path for path in fs.paths() if "/projections/" in path]
    texts = [fs.read(path) for path in kept]

    repair(fs, ROOT, FakeClock())
    assert [topic.name for topic in look(ROOT, fs=fs).topics()] == ["t"]
    with open_memory_log(fs) as log:
        log.core.checkpoint(everything=True)
        log.compact()

    assert len(kept) == 2
    assert [fs.read(path) for path in kept] == texts
