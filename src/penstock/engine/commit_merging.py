"""Merges the appends of one group commit into fewer entries. Pure."""

from __future__ import annotations

from penstock.codec import kernel
from penstock.directory.block import ALONE_BYTES
from penstock.entries import RecordsAppended


def merged(entries: list[RecordsAppended]) -> list[RecordsAppended]:
    """The same records in fewer entries: one for each run of small neighbours without a key. A
    group commit has mostly single records, and applying them one by one would cost more than
    writing them. A large entry is kept as it is, as it is in memory."""
    if len(entries) == 1:
        return entries
    result: list[RecordsAppended] = []
    row: list[RecordsAppended] = []
    for entry in entries:
        if entry.key or len(entry.frames) >= ALONE_BYTES:
            _flush(row, result)
            result.append(entry)
        else:
            row.append(entry)
    _flush(row, result)
    return result


def _flush(row: list[RecordsAppended], result: list[RecordsAppended]) -> None:
    if len(row) < 2:
        result += row
        row.clear()
        return
    frames, offsets = kernel.join_frames(
        [entry.frames for entry in row], [entry.offsets for entry in row]
    )
    result.append(
        RecordsAppended(
            row[0].topic_id,
            row[0].first_seq,
            sum([entry.count for entry in row]),
            row[0].first_ts,
            row[-1].last_ts,
            sum([entry.payload_bytes for entry in row]),
            frames,
            offsets,
        )
    )
    row.clear()
