"""Check every byte of a data directory and list the problems. Reads only."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from penstock.codec import kernel
from penstock.directory import log_identity, snapshot_parts
from penstock.directory.block import place
from penstock.directory.log_identity import DataLayout
from penstock.directory.replay import Recovered, recover
from penstock.directory.segments import shelf_of
from penstock.engine.opening import take_lock
from penstock.errors import ColdUnavailable, CorruptFrame
from penstock.projections import checkpoint
from penstock.projections.runner import FILE_NAME
from penstock.projections.spill import SPILL_NAME
from penstock.storage import snapshots
from penstock.storage.fs import Filesystem
from penstock.storage.segments.reader import Segment
from penstock.storage.tiers import cold as colds
from penstock.storage.wal import durable_mark, files, recovery
from penstock.storage.wal.recovery import Positions, WalFileScan
from penstock.topics.registry import Registry

Progress = Callable[[int, int], None]
_REPAIR = "run `penstock repair`"
_REBUILT = "it is rebuilt from the data when the log is opened"
_REFOLDED = "its projection is rebuilt from its topic"
_FOREIGN = "it is ignored; move it to another place"


class Problem(msgspec.Struct, frozen=True):
    """One damaged or missing part. `kind` says whether records are affected."""

    path: str
    offset: int | None
    kind: str  # "damage": source data; "derived": rebuilt by itself; "missing": a file is gone;
    # "cold": the cold tier cannot be asked
    reason: str
    hint: str


class CheckReport(msgspec.Struct, frozen=True):
    is_clean: bool
    problems: list[Problem]
    files: int
    frames: int
    records: int  # alive, as a reader would see them
    bytes: int
    torn: int  # unfinished writes at the end of the log: normal after a crash


class _Findings:
    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.files = self.frames = self.records = self.bytes = 0

    def add(self, path: str, offset: int | None, kind: str, reason: str, hint: str) -> None:
        self.problems.append(Problem(path, offset, kind, reason, hint))


def check(
    fs: Filesystem,
    root: str,
    progress: Progress = lambda done, total: None,
    *,
    skip_data: bool = False,
) -> CheckReport:
    """Verify WAL, segments, snapshots and their references. Locks the directory. `skip_data` leaves
    out the data of segments, which may be large."""
    log_identity.require(fs, root)
    lock = take_lock(fs, root)
    try:
        return _check(fs, root, progress, skip_data=skip_data)
    finally:
        lock.release()


def _check(fs: Filesystem, root: str, progress: Progress, *, skip_data: bool) -> CheckReport:
    found = _Findings()
    layout = log_identity.read(fs, root)
    if log_identity.read_identity(fs, root) is None:
        found.add(
            f"{root}/{log_identity.FORMAT_NAME}", None, "derived", "missing or unreadable", _REBUILT
        )
    if layout is None:
        layout = DataLayout(root, bytes(16), True)
    registry = Registry(place)
    shelf = shelf_of(fs, layout)
    recovered = recover(fs, layout, registry, shelf)
    _check_snapshots(fs, layout, recovered, found)
    try:
        colds.remembered(fs, root)
    except ColdUnavailable as error:
        found.add(error.path, None, "cold", error.reason, error.hint)
    _check_wal(fs, layout, recovered, found)
    _check_projections(fs, layout, found)
    found.records = sum(topic.live for topic in registry.all())
    segments = [
        span.run
        for topic in registry.all()
        for span in topic.spans
        if isinstance(span.run, Segment) and not skip_data
    ]
    for done, segment in enumerate(segments):
        progress(done, len(segments))
        _check_segment(segment, found)
    progress(len(segments), len(segments))
    return CheckReport(
        not found.problems,
        found.problems,
        found.files,
        found.frames,
        found.records,
        found.bytes,
        len(recovered.verdict.torn),
    )


def _check_snapshots(
    fs: Filesystem, layout: DataLayout, recovered: Recovered, found: _Findings
) -> None:
    """Check both snapshots: the older one is the spare, and must be readable, too."""
    for number in snapshots.numbers(fs, layout.meta):
        found.files += 1
        path = snapshots.path_of(layout.meta, number)
        try:
            blob = snapshots.read(fs, layout.meta, number)
        except ValueError as error:
            found.add(path, None, "derived", str(error), _REBUILT)
            continue
        found.bytes += len(blob.body)
        if blob.log_id != layout.log_id:
            found.add(path, None, "derived", "it belongs to another log", _REBUILT)
    if recovered.rebuilt:
        found.add(
            layout.meta, None, "damage", "no snapshot is readable", "topics came from segments"
        )


def _check_wal(fs: Filesystem, layout: DataLayout, recovered: Recovered, found: _Findings) -> None:
    for group in files.groups(fs, layout.wal):
        for path in durable_mark.damaged(fs, group):
            found.add(path, None, "derived", "its checksum differs", _REBUILT)
    for flaw in recovered.verdict.damage:
        kind = "missing" if not fs.exists(flaw.path) else "damage"
        found.add(flaw.path, flaw.offset, kind, flaw.reason, _REPAIR)
    kept = _kept_from(fs, layout)
    for step in recovery.examine(fs, layout.wal, kept, may_start_late=not kept):
        if isinstance(step, WalFileScan):
            found.files += 1
            found.frames += step.frames
            found.bytes += step.good_end
            continue
        known = {(flaw.path, flaw.offset) for flaw in recovered.verdict.damage}
        for flaw in step.damage:  # in files that a snapshot absorbed: still the spare's source
            if (flaw.path, flaw.offset) not in known and fs.exists(flaw.path):
                found.add(flaw.path, flaw.offset, "damage", flaw.reason, _REPAIR)


def _check_projections(fs: Filesystem, layout: DataLayout, found: _Findings) -> None:
    """States of projections are derived from the records: none of them is a reason to repair."""
    for folder in fs.list(layout.projections):
        path = f"{layout.projections}/{folder}"
        try:
            names = fs.list(path)
        except NotADirectoryError:
            found.add(path, None, "derived", "it is not the folder of a projection", _FOREIGN)
            continue
        for name in names:
            file = f"{path}/{name}"
            if name == FILE_NAME:
                found.files += 1
                reason = checkpoint.check(fs, file)
                if reason is not None:
                    found.add(file, None, "derived", reason, _REFOLDED)
            elif name not in (f"{FILE_NAME}.tmp", SPILL_NAME):  # which a crash leaves behind
                found.add(file, None, "derived", "it is not a file of a projection", _FOREIGN)


def _kept_from(fs: Filesystem, layout: DataLayout) -> Positions:
    """The start of the WAL that is still kept: the positions that the spare snapshot has
    absorbed."""
    numbers = snapshots.numbers(fs, layout.meta)
    if len(numbers) < snapshots.KEEP:
        return {}
    try:
        blob = snapshots.read(fs, layout.meta, numbers[-1])
        return snapshot_parts.decode(blob.body, of=blob.log_id, wanted=layout.log_id).positions
    except ValueError:
        return {}


def _check_segment(segment: Segment, found: _Findings) -> None:
    found.files += 2 + bool(segment.facts.tags_bytes)
    for name, look in (("idx", segment.check_index), ("tags", segment.check_tags)):
        try:
            look()
        except ValueError as error:
            found.add(f"{segment.stem}.{name}", None, "derived", str(error), _REBUILT)
    try:
        segment.rebuild_entries()
        data = segment.data()
    except CorruptFrame as error:
        found.add(error.path, error.offset, "damage", error.reason, _REPAIR)
        return
    except ColdUnavailable as error:
        if all(problem.kind != "cold" for problem in found.problems):  # one says it for all
            found.add(error.path, None, "cold", error.reason, error.hint)
        return
    items, _, _ = kernel.scan(data, 0, len(data))
    found.frames += sum(item[6] for item in items)
    found.bytes += len(data)
