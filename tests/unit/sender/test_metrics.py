"""A sender's page for Prometheus."""

from __future__ import annotations

import msgspec
import pytest

from penstock.sender.counters import Counters, SenderStatus
from penstock.sender.metrics import page


def test_every_number_is_on_the_page_once() -> None:
    counters = Counters(rows_appended=7, frames_replayed=2)
    status = SenderStatus(counters, 9, 4, 4096, 2500, True, "h:1", 3, "")

    lines = [line for line in page("till-1", status).splitlines() if not line.startswith("#")]

    found = dict(line.split(" ") for line in lines)
    assert len(found) == len(lines)
    assert found['penstock_sender_rows_appended_total{sender_id="till-1"}'] == "7"
    assert found['penstock_sender_frames_replayed_total{sender_id="till-1"}'] == "2"
    assert found['penstock_sender_oldest_unacked_seconds{sender_id="till-1"}'] == "2.5"
    assert found['penstock_sender_connected{sender_id="till-1"}'] == "1"
    assert found['penstock_sender_halted{sender_id="till-1"}'] == "0"
    for name in msgspec.structs.asdict(counters):
        assert f'penstock_sender_{name}_total{{sender_id="till-1"}}' in found


@pytest.mark.parametrize("value", [7, 123_456_789, (1 << 53) + 1])
def test_large_numbers_keep_all_their_digits(value: int) -> None:
    status = SenderStatus(Counters(rows_appended=value), value, 1, value, 0, True, "h", 0, "")

    found = page("x", status).splitlines()

    for name in ("rows_appended_total", "published_fsn", "spool_bytes"):
        assert f'penstock_sender_{name}{{sender_id="x"}} {value}' in found
