"""R9: every bit of a log flips, every file ends early. It is found, and never read as a record."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from penstock.codec import kernel
from penstock.errors import CorruptFrame, PenstockError
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Record
from tests.support import rig, states
from tests.support.model import Walk

_LENGTH = struct.Struct("<I")


def closed_log(*, compacted: bool) -> MemoryFilesystem:
    """Two topics, in the WAL alone or in segments alone. One frame's length is a power of two:
    a flip makes it the zero that the unused rest of a WAL file begins with."""
    fs = MemoryFilesystem()
    with states.open_log(fs) as log:
        log.create("f", durability="fsync")
        log.append("f", [Record(data={"n": 1}, tag="a", node="n"), Record(data="x", meta={"m": 1})])
        log.append("f", [b'"%s"' % (b"." * (128 - 42 - 2))])
        log.append("f", [3], idempotency_key="k")
        log.create("d", durability="disk")
        log.append("d", [4, 5], tag="b")
        if compacted:
            log.compact()
    return fs


def is_source(path: str) -> bool:
    return path.endswith((".data", ".log"))


class Rot:
    """Damages one copy after another of a log and compares what readers get."""

    def __init__(self, fs: MemoryFilesystem) -> None:
        self.fs = fs
        with states.open_log(fs.copy()) as log:
            self.whole = states.see(log)
        self.tried = self.reported = self.harmless = 0
        self.wrong: dict[str, str] = {}

    def check(self, damaged: MemoryFilesystem, path: str, how: str) -> None:
        self.tried += 1
        objection = self._objection(damaged, path)
        if objection:
            kind = path.rsplit(".", 1)[-1]
            self.wrong.setdefault(f"{kind}: {objection}", f"{path} {how}")

    def _objection(self, damaged: MemoryFilesystem, path: str) -> str:
        try:
            log = states.open_log(damaged)
        except PenstockError as error:
            self.reported += 1
            return "" if is_source(path) else f"a derived file stops opening: {error!r}"
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            return f"opening raised {error!r}"
        found, loud = _read_all(log)
        is_told = loud or bool(log.damage)
        self.reported += is_told
        self.harmless += not is_told
        for name, walk in found.items():
            whole = self.whole.get(name)
            for seq, record in walk.records.items():
                if whole is None or whole.records.get(seq) != record:
                    return f"reads {record}, which nobody wrote"
        is_short = any(
            found[name].records.keys() != walk.records.keys() if name in found else walk.records
            for name, walk in self.whole.items()
        )
        if is_short and not is_source(path):
            return "records are missing though their source is whole"
        if is_short and not is_told:
            return "records are missing in silence"
        try:
            log.close()
        except PenstockError:
            return ""
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            return f"closing raised {error!r}"
        return ""


def _read_all(log: states.Log) -> tuple[dict[str, Walk], bool]:
    """What can be read, and whether readers were told of a loss."""
    found, is_loud = {}, False
    for info in log.topics():
        seen = found[info.name] = Walk(info.epoch, info.config, info.head_seq, {}, [])
        after = 0
        while True:
            try:
                page = log.read(info.name, after, 1)
            except CorruptFrame:
                is_loud = True
                break
            is_loud |= page.gap is not None
            seen.records.update((record.seq, record) for record in page.records)
            if page.caught_up:
                break
            assert page.next_seq > after, page
            after = page.next_seq
    return found, is_loud


def flips(fs: MemoryFilesystem) -> Iterator[tuple[MemoryFilesystem, str, str]]:
    for path in fs.paths():
        for offset in range(fs.size(path)):
            # At the short size one bit of each byte, in turn all eight.
            for bit in range(8) if rig.IS_FULL else (offset % 8,):
                damaged = fs.copy()
                damaged.corrupt(path, offset, 1 << bit)
                yield damaged, path, f"bit {bit} of byte {offset}"


def cuts(fs: MemoryFilesystem) -> Iterator[tuple[MemoryFilesystem, str, str]]:
    for path in fs.paths():
        for size in range(fs.size(path)):
            damaged = fs.copy()
            damaged.truncate_at(path, size)
            yield damaged, path, f"cut to {size} bytes"


@pytest.mark.parametrize("compacted", [False, True], ids=["in the WAL", "in segments"])
@pytest.mark.parametrize("harm", [flips, cuts], ids=["flipped", "cut"])
def test_a_rotten_file_is_noticed_and_no_wrong_record_is_read(
    harm: object, compacted: bool, report: rig.Report
) -> None:
    rot = Rot(closed_log(compacted=compacted))

    for damaged, path, how in harm(rot.fs):  # type: ignore[operator]
        rot.check(damaged, path, how)

    report(
        f"R9 {harm.__name__}, compacted={compacted}: {rot.tried} tried, "  # type: ignore[attr-defined]
        f"{rot.reported} reported, {rot.harmless} healed or harmless, {len(rot.wrong)} violations"
    )
    told = [f"{story}: {text}" for text, story in rot.wrong.items()]
    assert not told, "\n".join([f"{len(told)} violations", *told[:20]])


def segment(size: int) -> tuple[bytearray, list[int]]:
    """Frames of one topic, `size` bytes in all, and where each starts."""
    frames, starts = bytearray(), []
    seq = 1
    while len(frames) < size:
        starts.append(len(frames))
        room = size - len(frames) - kernel_overhead()
        pad = room if room < 300 else 40 + seq * 37 % 160
        text = b'"' + b"." * (pad - 2) + b'"'
        encoded = kernel.encode_appends(
            1, seq, 1_000 + seq, 0, [text], None, None, None, None, None
        )
        frames += encoded[0]
        seq += 1
    return frames, starts


def kernel_overhead() -> int:
    return len(kernel.encode_appends(1, 1, 1, 0, [b"1"], None, None, None, None, None)[0]) - 1


def test_every_flipped_bit_of_a_64_kib_segment_is_detected(report: rig.Report) -> None:
    """Frames before the flip cannot change, so the walk starts at the one that holds it."""
    frames, starts = segment(64 * 1024)
    size = len(frames)
    assert size == 64 * 1024
    undetected = []

    for start, end in zip(starts, [*starts[1:], size], strict=True):
        for offset in range(start, end):
            for bit in range(8):
                frames[offset] ^= 1 << bit
                items, stop, reason = kernel.scan(frames, start, size)
                if stop != start or items or not (reason or stop < size):
                    undetected.append((offset, bit, stop, reason))
                frames[offset] ^= 1 << bit

    report(f"R9 codec: {size * 8} flips, {len(undetected)} undetected")
    assert undetected == []
    assert kernel.scan(frames, 0, size)[1:] == (size, 0)
