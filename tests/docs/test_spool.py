"""What docs/format/spool.md says of bytes holds for real files.

Read with `struct` and `google_crc32c` as the page says, and with nothing of the package's own.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

from google_crc32c import value

from penstock.sender.opening import open_spool
from penstock.sender.settings import SpoolSettings
from penstock.sender.slot import Rejection

HEAD = "<4sHHQQ16sQ12sI"
FRAME = "<4sIQI"
WATERMARK = "<4sIQqq28sI"
PAYLOADS = [b"one", b"", b"three"]


def test_a_slot_is_what_its_page_says(tmp_path: Path) -> None:
    settings = SpoolSettings(sf_dir=str(tmp_path), sender_id="till_1", segment_bytes=8192)
    spool = open_spool(settings)
    for payload in PAYLOADS:
        spool.append([payload])
    spool.maintain()
    spool.reject(0, Rejection("PARSE_ERROR", 5, "no"))
    spool.ack(1)

    slot = tmp_path / "till_1"
    used, spare = sorted(slot.glob("sf-*.seg"))
    assert (used.name, spare.name) == ("sf-0000000000000001.seg", "sf-0000000000000002.seg")
    data = used.read_bytes()
    assert len(data) == 8192
    for at, base in ((0, (1 << 64) - 1), (64, 0)):
        magic, version, flags, found, _, incarnation, number, zeros, held = struct.unpack_from(
            HEAD, data, at
        )
        assert (magic, version, flags, found, number) == (b"PSsg", 1, 0, base, 1)
        assert (incarnation, zeros) == (spool.incarnation, bytes(12))
        assert held == value(data[at : at + 60])
    assert spare.read_bytes()[64:] == bytes(8192 - 64)

    at = 128
    for fsn, payload in enumerate(PAYLOADS):
        magic, length, found, held = struct.unpack_from(FRAME, data, at + 4)
        assert (magic, length, found) == (b"PSfr", len(payload), fsn)
        assert data[at + 24 : at + 24 + length] == payload
        assert held == value(data[at + 8 : at + 20] + payload)
        place = spool.incarnation + struct.pack("<QQ", 1, at) + data[at + 4 : at + 24]
        assert struct.unpack_from("<I", data, at) == (value(place),)
        at += 24 + length
    assert not any(data[at:])

    marks = (slot / ".ack-watermark").read_bytes()
    assert len(marks) == 8192
    # Nothing was removed yet, so that one place alone was written to.
    assert marks[:4096] == bytes(4096)
    magic, version, generation, acked, published, zeros, held = struct.unpack_from(
        WATERMARK, marks, 4096
    )
    assert (magic, version, zeros) == (b"PSwm", 1, bytes(28))
    assert held == value(marks[4096 : 4096 + 60])
    assert (generation > 0, acked, published) == (True, 1, 2)

    name = f"{0:020d}-{spool.incarnation.hex()}"
    letter = slot / "dead-letter" / name
    assert letter.with_suffix(".frame").read_bytes() == data[132 : 132 + 23]
    note = json.loads(letter.with_suffix(".json").read_text())
    assert set(note) == {"fsn", "incarnation", "category", "status", "message", "time_ms"}
    spool.close()
