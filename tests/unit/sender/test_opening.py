"""Opening a slot: what is read, put aside, cut and removed."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest
from google_crc32c import value

from penstock.errors import FormatTooNew, NetworkFilesystem, SpoolFailed, SpoolHole, StorageError
from penstock.sender.ack_watermark import AckWatermark
from penstock.sender.opening import open_spool, recover
from penstock.sender.recovery import SlotFindings
from penstock.sender.segment import RECORD_BYTES
from penstock.sender.segment_files import SegmentFiles
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Slot
from penstock.testing import MemoryFilesystem

PATH = "/sf/edge"


def slot_with(*segments: list[bytes]) -> MemoryFilesystem:
    """Segments 1, 2, … that hold these payloads, numbered from 0."""
    fs = MemoryFilesystem()
    fs.make_dirs(PATH)
    files = SegmentFiles(fs, PATH, 4096)
    fsn = 0
    for number, payloads in enumerate(segments, 1):
        writer = files.promote(files.prepare(number, b"i" * 16, now_ms=5), fsn)
        for payload in payloads:
            writer.segment.add(*writer.write(fsn, [payload]))
            fsn += 1
    return fs


def segment(number: int) -> str:
    return f"{PATH}/sf-{number:016x}.seg"


def recovered(fs: MemoryFilesystem) -> tuple[SlotFindings, Slot]:
    slot = Slot.open(fs, PATH)
    return recover(slot, AckWatermark(fs, PATH)), slot


def test_what_was_written_is_found_and_the_rest_given_back() -> None:
    fs = slot_with([b"a", b"b"], [b"c"])

    findings, _ = recovered(fs)

    assert [(s.base, s.last, s.size) for s in findings.segments] == [(0, 1, 4096), (2, 2, 153)]
    assert fs.size(segment(2)) == 153


def test_small_frames_need_less_memory_than_they_take_on_disk() -> None:
    fs = slot_with(*([[b"x" * 10] * 100] * 200))

    tracemalloc.start()
    try:
        findings, _ = recovered(fs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert sum(len(segment.offsets) for segment in findings.segments) == 20_000
    assert peak < 200 * 4096


def test_temporary_files_and_spares_go() -> None:
    fs = slot_with([b"a"], [])
    fs.replace(f"{PATH}/.preallocated.tmp", b"half a head")
    fs.replace(f"{PATH}/.renewed.tmp", b"")
    fs.replace(f"{PATH}/notes.txt", b"somebody's own")

    recovered(fs)

    assert fs.list(PATH) == [".lock", "notes.txt", "sf-0000000000000001.seg"]


def test_acknowledged_segments_go_after_the_watermark_is_durable() -> None:
    fs = slot_with([b"a"], [b"b"])
    AckWatermark(fs, PATH).record(0, 1)

    findings, _ = recovered(fs)

    assert not fs.exists(segment(1))
    assert findings.acked == 0
    for state in fs.crash_states():
        assert recovered(state)[0].acked == 0


def test_damaged_bytes_are_copied_aside_with_a_report() -> None:
    fs = slot_with([b"a", b"bad", b"c"])
    offset = 128 + 25
    original = fs.read(segment(1))
    fs.corrupt(segment(1), offset + 24)

    findings, slot = recovered(fs)

    assert [(d.first_fsn, d.last_fsn) for d in findings.damage] == [(1, 1)]
    (report,) = slot.quarantined()
    assert report == {
        "file": "sf-0000000000000001.seg",
        "offset": offset,
        "length": 27,
        "first_fsn": 1,
        "last_fsn": 1,
        "reason": "these bytes are not a frame, and intact frames follow",
    }
    (name,) = [n for n in fs.list(f"{PATH}/quarantine") if n.endswith(".bytes")]
    copied = fs.read(f"{PATH}/quarantine/{name}")
    assert len(copied) == 27
    assert sum(a != b for a, b in zip(copied, original[offset:], strict=False)) == 1


def test_on_a_full_disk_damage_waits_to_be_moved_with_its_file() -> None:
    fs = slot_with([b"a", b"bad", b"c"])
    fs.corrupt(segment(1), 128 + 25 + 24)
    fs.capacity_bytes = 1

    findings, _ = recovered(fs)

    assert findings.segments[0].must_quarantine
    assert findings.damage


def test_a_torn_tail_is_copied_aside_and_cut() -> None:
    """It may have been a frame: only its writer could tell."""
    fs = slot_with([b"a", b"newest"])
    fs.corrupt(segment(1), 128 + 25 + 24)
    torn = fs.read(segment(1))[128 + 25 : 128 + 25 + 30]

    findings, slot = recovered(fs)

    assert (findings.damage, findings.torn_bytes) == ([], 30)
    assert fs.size(segment(1)) == 128 + 25
    (report,) = slot.quarantined()
    assert report == {
        "file": "sf-0000000000000001.seg",
        "offset": 128 + 25,
        "length": 30,
        "reason": "these bytes are not a frame, and no frame follows",
    }
    (name,) = [n for n in fs.list(f"{PATH}/quarantine") if n.endswith(".bytes")]
    assert fs.read(f"{PATH}/quarantine/{name}") == torn


@pytest.mark.parametrize("before", [[], [[b"a"]]])
def test_the_only_frame_of_a_file_is_copied_before_the_file_goes(
    before: list[list[bytes]],
) -> None:
    fs = slot_with(*before, [b"newest"])
    fs.corrupt(segment(len(before) + 1), 128 + 24)

    findings, slot = recovered(fs)

    assert not fs.exists(segment(len(before) + 1))
    assert findings.torn_bytes
    assert [report["length"] for report in slot.quarantined()] == [findings.torn_bytes]


def test_zeros_behind_the_newest_frame_are_nothing() -> None:
    fs = slot_with([b"a"])

    findings, slot = recovered(fs)

    assert (findings.torn_bytes, slot.quarantined()) == (0, [])


@pytest.mark.parametrize("payloads", [[b"a", b"newest"], [b"newest"]])
def test_on_a_full_disk_a_torn_tail_is_kept_with_its_file(payloads: list[bytes]) -> None:
    fs = slot_with(payloads)
    fs.corrupt(segment(1), fs.read(segment(1)).index(b"newest"))
    before = fs.read(segment(1))
    fs.capacity_bytes = 1

    findings, _ = recovered(fs)

    if findings.segments:
        assert findings.segments[0].must_quarantine
        assert fs.read(segment(1)) == before
    else:
        (kept,) = [path for path in fs.list(PATH) if path.endswith(".damaged")] or [
            f"quarantine/{name}" for name in fs.list(f"{PATH}/quarantine")
        ]
        assert fs.read(f"{PATH}/{kept}") == before


def test_a_later_format_is_refused_and_nothing_is_touched() -> None:
    fs = slot_with([b"a"])
    data = bytearray(fs.read(segment(1)))
    data[4] = 2
    data[RECORD_BYTES - 4 : RECORD_BYTES] = struct.pack(
        "<I", value(bytes(data[: RECORD_BYTES - 4]))
    )
    fs.replace(segment(1), bytes(data))

    with pytest.raises(FormatTooNew, match="segment format 2"):
        recovered(fs)
    assert fs.read(segment(1)) == bytes(data)


def test_a_hole_changes_nothing() -> None:
    fs = slot_with([b"a"], [b"b"], [b"c"])
    fs.unlink(segment(2))
    before = fs.fingerprint()
    Slot.open(fs, PATH).release()
    before = fs.fingerprint()

    with pytest.raises(SpoolHole):
        recovered(fs)

    assert fs.fingerprint() == before


def test_an_unreadable_newest_file_without_frames_is_moved_aside() -> None:
    fs = slot_with([b"a"], [])
    fs.replace(segment(2), b"\xff" * 4096)

    findings, _ = recovered(fs)

    assert fs.list(f"{PATH}/quarantine") == ["sf-0000000000000002.seg.damaged"]
    assert findings.next_number == 2


def test_a_file_under_another_number_is_not_believed() -> None:
    fs = slot_with([b"a"])
    fs.rename(segment(1), segment(4))

    with pytest.raises(SpoolHole, match="head of this segment"):
        recovered(fs)


def test_a_disk_that_cannot_be_read_stops_the_opening() -> None:
    fs = slot_with([b"a"])
    fs.fail("read", path=".seg")

    with pytest.raises(SpoolFailed, match="cannot be read"):
        recovered(fs)


# Folders that cannot be used.


def test_only_the_last_folder_of_the_path_is_created(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        open_spool(SpoolSettings(sf_dir=f"{tmp_path}/typo/spool"))

    assert caught.value.path == f"{tmp_path}/typo/spool"
    assert f"its parent {tmp_path}/typo does not exist" in str(caught.value)
    assert caught.value.hint
    assert not list(tmp_path.iterdir())
    open_spool(SpoolSettings(sf_dir=f"{tmp_path}/spool/")).close()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    for sf_dir in (f"{tmp_path}/file", f"{tmp_path}/file/spool"):
        with pytest.raises(SpoolFailed, match=f"^{sf_dir}/default: {tmp_path}/file.*cannot be"):
            open_spool(SpoolSettings(sf_dir=sf_dir))


@pytest.mark.parametrize("operation", ["mkdir", "open", "read"])
def test_a_folder_that_fails_is_named_with_the_reason(operation: str) -> None:
    fs = slot_with([b"a"])
    path = f"{PATH}x" if operation == "mkdir" else PATH
    fs.fail(operation)

    with pytest.raises(SpoolFailed, match=f"^{path}"):
        open_spool(SpoolSettings(sf_dir="/sf", sender_id=path.rpartition("/")[2]), fs=fs)


def test_a_spool_on_a_network_file_system_is_refused_unless_it_is_allowed() -> None:
    class Far(MemoryFilesystem):
        def network_kind(self, path: str) -> str:
            return "nfs"

    fs = Far()
    fs.make_dirs("/far")

    with pytest.raises(NetworkFilesystem, match="sf_allow_network_fs=on") as caught:
        open_spool(SpoolSettings(sf_dir="/far/sf"), fs=fs)

    assert (caught.value.path, caught.value.kind) == ("/far/sf", "nfs")
    assert not fs.exists("/far/sf")
    open_spool(SpoolSettings(sf_dir="/far/sf", allow_network_fs=True), fs=fs).close()
    open_spool(SpoolSettings(), fs=fs).close()  # in memory
