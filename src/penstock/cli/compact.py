"""`penstock compact`: move the WAL into segments and remove deleted records from them."""

from __future__ import annotations

import dataclasses

import typer

from penstock.cli import output, target
from penstock.cli.options import DEFAULT_DIR, DIRECTORY, AsJson, DataDir
from penstock.storage.fs import OsFilesystem
from penstock.storage.wal import files


def register(app: typer.Typer) -> None:
    app.command(rich_help_panel=DIRECTORY)(compact)


def compact(as_json: AsJson = False, data_dir: DataDir = DEFAULT_DIR) -> None:
    """Move the WAL into segments, drop deleted records, remove files that are no longer needed."""
    root = target.root_of(data_dir)
    before = disk_bytes(root)
    with target.open_existing(data_dir) as log:
        with output.progress("Compacting") as step:
            report = log.compact(progress=step)
        segments = log.stats().segments
    after = disk_bytes(root)
    if as_json:
        held = {"segments": segments, "bytes_before": sum(before), "bytes_after": sum(after)}
        output.json_line({**dataclasses.asdict(report), **held})
        return
    output.line(
        f"compacted into snapshot {report.snapshot}: "
        f"{output.many(report.segments_sealed, 'segment')} sealed, "
        f"{report.segments_rewritten:,} rewritten, {segments:,} in all"
    )
    removed = output.many(report.wal_files_removed, "WAL file")
    output.line(
        f"removed {removed} and {output.many(report.segment_files_removed, 'segment file')}"
    )
    output.line(
        f"WAL {output.size(before[0])} → {output.size(after[0])}, "
        f"segments {output.size(before[1])} → {output.size(after[1])}"
    )


def disk_bytes(root: str) -> tuple[int, int]:
    """Bytes in the WAL and in segments."""
    fs = OsFilesystem()
    wal = sum(fs.size(file.path) for file in files.discover(fs, f"{root}/wal"))
    topics = f"{root}/topics"
    segments = sum(
        fs.size(f"{topics}/{topic}/{name}")
        for topic in fs.list(topics)
        for name in fs.list(f"{topics}/{topic}")
    )
    return wal, segments
