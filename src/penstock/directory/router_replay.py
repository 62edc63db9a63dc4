"""Makes copies again from their source records: how replay handles references."""

from __future__ import annotations

import bisect
from collections import OrderedDict
from operator import itemgetter

from penstock.codec import kernel
from penstock.codec.frame import FrameType
from penstock.directory import copied_records as copying
from penstock.directory.copy_origin import Origin
from penstock.entries import (
    COPIES_DURABLE,
    CopiesLogged,
    RecordsAppended,
    WalRange,
)
from penstock.limits import HOPS_MAX
from penstock.storage.fs import Filesystem
from penstock.storage.wal import durable_mark, files, recovery
from penstock.storage.wal.files import WalFile
from penstock.storage.wal.recovery import Item, Positions, WalFileScan
from penstock.topics.router import seqs_of
from penstock.types import RouterRules

_SCANS_MAX = 4  # files kept mapped at a time
_start = itemgetter(4)


class RouterReplay:
    """Reads the WAL at the position of a reference. Only valid frames before the first bad bytes of
    a file count, as in recovery."""

    def __init__(self, fs: Filesystem, wal_dir: str, absorbed: Positions) -> None:
        self._fs = fs
        self._wal_dir = wal_dir
        self._absorbed = absorbed
        self._is_damaged = False  # is a file missing, or was one mended?
        self._scans: OrderedDict[tuple[str, int], WalFileScan] = OrderedDict()

    def derive(self, entry: CopiesLogged) -> tuple[list[RecordsAppended], bool]:
        """The copies, in runs of consecutive seqs: one run, unless source records are missing; and
        whether that is due to damage."""
        self._is_damaged = False
        return self._derive(entry, 0), self._is_damaged

    def _derive(self, entry: CopiesLogged, depth: int) -> list[RecordsAppended]:
        place = entry.place
        if place is None or not place.file_index or depth > HOPS_MAX:
            return []
        held = self._records(place, entry.source_id, depth)
        found: list[RecordsAppended] = []
        dest_seq = entry.first_seq + entry.lost
        run: list[bytes] = []
        run_first = dest_seq
        for first, count in seqs_of(entry.runs):
            at = first
            while at < first + count:
                frames, taken = _cut(held, at, first + count - at)
                if frames:
                    if not run:
                        run_first = dest_seq
                    run.append(frames)
                elif run:
                    found.append(self._copies(entry, run, run_first))
                    run = []
                at += taken
                dest_seq += taken
        if run:
            found.append(self._copies(entry, run, run_first))
        return found

    def _copies(self, entry: CopiesLogged, run: list[bytes], first: int) -> RecordsAppended:
        made = copying.make(
            b"".join(run),
            entry.topic_id,
            first,
            entry.ts,
            RouterRules.of(entry.options),
            Origin(entry.router, entry.source, entry.source_id),
            durable=bool(entry.options & COPIES_DURABLE),
        )
        if made is None:
            raise AssertionError((entry.router, "copies of nothing", first))
        return made.entry

    def _records(self, place: WalRange, topic_id: int, depth: int) -> list[RecordsAppended]:
        """The records of a topic at this position of the log."""
        scan = self._scan(place)
        if scan is None:
            self._is_damaged = True
            return []
        items = scan.items
        self._is_damaged |= any(item[0] == FrameType.SCAR for item in items)
        found: list[RecordsAppended] = []
        at = max(0, bisect.bisect_right(items, place.start, key=_start) - 1)
        for item in items[at:]:
            if item[4] >= place.end:
                break
            if item[1] != topic_id:
                continue
            if item[0] == FrameType.APPEND:
                found.append(_entry_of(scan, item))
            elif item[0] == FrameType.COPIES and item[4] >= place.start:
                logged = recovery.read_control(scan, item)
                if isinstance(logged, CopiesLogged):
                    found += self._derive(logged, depth + 1)
        return found

    def _scan(self, place: WalRange) -> WalFileScan | None:
        key = (place.group, place.file_index)
        scan = self._scans.get(key)
        if scan is not None:
            self._scans.move_to_end(key)
            return scan
        group = f"{self._wal_dir}/{place.group}".rstrip("/")
        file = WalFile(f"{group}/{files.file_name(place.file_index)}", group, place.file_index)
        if not self._fs.exists(file.path):
            return None
        noted = durable_mark.read(self._fs, group)
        if noted is not None and noted.is_failed:
            recovery.forget_cached(self._fs, file)
        index, offset = self._absorbed.get(place.group, (0, 0))
        scan = recovery.scan_file(self._fs, file, offset if index == place.file_index else 0)
        self._scans[key] = scan
        if len(self._scans) > _SCANS_MAX:
            self._scans.popitem(last=False)
        return scan


def _entry_of(scan: WalFileScan, item: Item) -> RecordsAppended:
    _, topic_id, seq, ts, start, end, count, payload, offsets, last_ts = item
    return RecordsAppended(
        topic_id, seq, count, ts, last_ts, payload, scan.buffer[start:end], offsets
    )


def _cut(held: list[RecordsAppended], first: int, count: int) -> tuple[bytes, int]:
    """The frames of seqs from `first` on, at most `count`, from one entry; or nothing, and the
    number of seqs that no entry has."""
    nearest = first + count
    for entry in held:
        end = entry.first_seq + entry.count
        if entry.first_seq <= first < end:
            taken = min(count, end - first)
            starts = memoryview(entry.offsets).cast("I")
            low = starts[first - entry.first_seq]
            after = first - entry.first_seq + taken
            high = starts[after] if after < entry.count else len(entry.frames)
            return bytes(entry.frames[low:high]), taken
        if first < entry.first_seq < nearest:
            nearest = entry.first_seq
    return b"", nearest - first


def past(entry: RecordsAppended, head: int) -> RecordsAppended | None:
    """The part of an entry past `head`; None when there is none."""
    known = head + 1 - entry.first_seq
    if known <= 0:
        return entry
    if known >= entry.count:
        return None
    at = memoryview(entry.offsets).cast("I")[known]
    frames = entry.frames[at:]
    offsets = kernel.shift_offsets(entry.offsets[4 * known :], -at)
    count = entry.count - known
    _, payload = kernel.measure(frames, offsets, 4, 0, count, None)
    return RecordsAppended(
        entry.topic_id, head + 1, count, entry.first_ts, entry.last_ts, payload, frames, offsets
    )
