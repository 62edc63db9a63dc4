"""`penstock wal stats`: a summary of the WAL, shard by shard."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import typer

from penstock.cli import output, target, wal_traverse
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import DEFAULT_DIR, AsJson, DataDir
from penstock.cli.wal_read import bad_fields, bad_text, report_if_in_use
from penstock.cli.wal_traverse import BadPlace, FileScan
from penstock.codec.frame import FrameType
from penstock.storage.fs import Filesystem, OsFilesystem
from penstock.storage.wal import durable_mark


class ShardFigures(msgspec.Struct):
    """Counts of one shard's files. Times are milliseconds since 1970."""

    shard: str
    files: int = 0
    first_file: int = 0
    last_file: int = 0
    bytes_allocated: int = 0
    bytes_used: int = 0
    frames: int = 0
    records: int = 0
    frames_by_type: dict[str, int] = {}
    first_ts: int | None = None
    last_ts: int | None = None
    durable_file: int | None = None
    durable_offset: int | None = None
    is_clean: bool = False  # closed in order
    is_failed: bool = False  # a sync failed
    torn: list[dict[str, Any]] = []
    damage: list[dict[str, Any]] = []


def register(app: typer.Typer) -> None:
    app.command("stats")(wal_stats)


def wal_stats(as_json: AsJson = False, data_dir: DataDir = DEFAULT_DIR) -> None:
    """Summarize the WAL, shard by shard: files, bytes, frames, records, durable end.

    Takes no lock. Exits with 3 if the WAL is damaged.
    """
    root = target.root_of(data_dir)
    report_if_in_use(root)
    fs = OsFilesystem()
    figures: dict[str, ShardFigures] = {}
    bad: list[tuple[FileScan, BadPlace]] = []
    for scan in wal_traverse.scan_files(fs, f"{root}/wal"):
        shard = figures.setdefault(scan.group, ShardFigures(scan.group or "wal"))
        _add(shard, scan)
        _add_mark(shard, fs, scan.file.group)
        bad += [(scan, place) for place in scan.bad]
        scan.buffer = b""  # a file at a time in memory
    shards = [figures[name] for name in sorted(figures)]
    if as_json:
        output.json_line({"shards": shards, "records": sum(shard.records for shard in shards)})
    else:
        _print(shards, bad)
    if any(place.is_damage for _, place in bad):
        raise typer.Exit(ExitCode.DAMAGE)


def _add(shard: ShardFigures, scan: FileScan) -> None:
    shard.first_file = shard.first_file or scan.file.index
    shard.last_file = scan.file.index
    shard.files += 1
    shard.bytes_allocated += len(scan.buffer)
    shard.bytes_used += scan.used
    counts = Counter(shard.frames_by_type) + scan.frames_by_type
    shard.frames_by_type = dict(counts.most_common())
    shard.frames = counts.total()
    shard.records = counts[wal_traverse.type_name(FrameType.APPEND)]
    times = [ts for item in scan.items for ts in (item[3], item[9])]
    if times:
        shard.first_ts = min(times) if shard.first_ts is None else min(shard.first_ts, *times)
        shard.last_ts = max(times) if shard.last_ts is None else max(shard.last_ts, *times)
    shard.torn += [bad_fields(scan, place) for place in scan.bad if not place.is_damage]
    shard.damage += [bad_fields(scan, place) for place in scan.bad if place.is_damage]


def _add_mark(shard: ShardFigures, fs: Filesystem, group: str) -> None:
    noted = durable_mark.read(fs, group)
    if noted is not None:
        shard.durable_file, shard.durable_offset = noted.index, noted.offset
        shard.is_clean, shard.is_failed = noted.is_clean, noted.is_failed


def _print(shards: list[ShardFigures], bad: list[tuple[FileScan, BadPlace]]) -> None:
    if not shards:
        output.line("the WAL is empty: everything is in segments and the snapshot")
    for shard in shards:
        output.line(output.paint(shard.shard, "bold"))
        output.facts(_facts(shard))
    for scan, place in bad:
        output.line(bad_text(scan, place))


def _facts(shard: ShardFigures) -> list[tuple[str, str]]:
    numbers = f"{shard.first_file}..{shard.last_file}"
    used = f"{output.size(shard.bytes_used)} of {output.size(shard.bytes_allocated)} allocated"
    types = ", ".join(f"{name} {count:,}" for name, count in shard.frames_by_type.items())
    facts = [
        ("files", f"{shard.files:,} ({numbers})"),
        ("bytes", used),
        ("records", f"{shard.records:,}"),
        ("frames", f"{shard.frames:,} ({types})" if types else "0"),
    ]
    if shard.first_ts is not None and shard.last_ts is not None:
        span = f"{output.moment(shard.first_ts)} … {output.moment(shard.last_ts)}"
        facts.append(("time", span))
    facts.append(("durable end", _durable(shard)))
    facts.append(("torn", f"{len(shard.torn):,}"))
    facts.append(("damaged", f"{len(shard.damage):,}"))
    return facts


def _durable(shard: ShardFigures) -> str:
    if shard.durable_file is None:
        return "unknown: no mark"
    words = "a sync failed" if shard.is_failed else "closed in order" if shard.is_clean else "open"
    return f"{shard.durable_file}:{shard.durable_offset} ({words})"
