"""A spool carried to a server while somebody waits: what became of each frame."""

from __future__ import annotations

import threading
from pathlib import Path

from penstock.sender.connect_string import parse
from penstock.sender.drain_job import DrainJob, Outcome
from penstock.sender.error_inbox import log_error
from penstock.sender.opening import open_spool
from penstock.sender.segment import name_of
from penstock.sender.settings import SpoolSettings
from penstock.testing import FakeClock
from penstock.wire.sender_protocol import pack_record, parcel_head
from tests.support.serving import eventually
from tests.support.sink import DEADLINE_S, SCHEMA, Sink, Visit, conf, free_port, take_all

IDLE_S = (0.5, 5.0, 60.0)
"""How long a drain job goes on when nothing comes of it. On a busy machine the shortest may be over
before the server was reached; then the next one is tried."""


def slot_of(tmp_path: Path, count: int) -> SpoolSettings:
    """A slot with so many frames, whose rows are their numbers."""
    tmp_path.mkdir(exist_ok=True)
    settings = SpoolSettings(sf_dir=str(tmp_path), sender_id="edge", segment_bytes=4096)
    spool = open_spool(settings)
    for number in range(count):
        row = b"%04d" % number
        spool.append([parcel_head("t", 1), pack_record(len(row), 0, 0, 0), row])
    spool.close()
    return settings


class Waiting(FakeClock):
    """Time stands still, and whoever waits is seen: an answer that comes before would be told to
    nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waited = threading.Event()

    def wait(self, condition: threading.Condition, timeout_s: float | None) -> bool:
        self.is_waited.set()
        return super().wait(condition, timeout_s)


def test_everything_is_acknowledged_and_the_slot_is_empty(tmp_path: Path) -> None:
    settings = slot_of(tmp_path, 200)
    steps: list[tuple[int, int]] = []
    clock = Waiting()

    def patient(visit: Visit) -> None:
        assert clock.is_waited.wait(DEADLINE_S)
        take_all(visit)

    with Sink(patient) as sink:
        drain_job = DrainJob(settings, parse(conf(sink)), handler=log_error, clock=clock)
        is_done = drain_job.run(DEADLINE_S, lambda done, total: steps.append((done, total)))
        drain_job.close()

    assert (is_done, drain_job.outcome) == (True, Outcome(200, 0, 0, 0))
    assert len(sink.rows()) == 200
    assert steps[-1] == (200, 200)
    assert not list((tmp_path / "edge").glob("sf-*.seg"))


def test_what_is_refused_or_lost_is_not_acknowledged(tmp_path: Path) -> None:
    settings = slot_of(tmp_path, 6)
    segment = tmp_path / "edge" / name_of(1)
    data = bytearray(segment.read_bytes())
    data[data.rindex(b"0004")] ^= 1  # the first may be 0000 and a byte of a checksum
    segment.write_bytes(data)
    heard = []

    def refuse(visit: Visit) -> None:
        visit.keep(visit.take())
        visit.ok()
        visit.take()
        visit.reply((SCHEMA, 1, "no"), close=1000)
        visit.until_gone()

    with Sink(refuse, take_all) as sink:
        drain_job = DrainJob(settings, parse(conf(sink)), handler=heard.append)
        assert drain_job.run(DEADLINE_S)
        drain_job.close()

    assert drain_job.outcome == Outcome(acknowledged=4, refused=1, lost=1, left=0)
    eventually(lambda: heard, "the error, on a thread of its own", DEADLINE_S)
    assert [error.fsn for error in heard] == [1]


def test_without_a_server_everything_is_left_and_the_cause_is_known(tmp_path: Path) -> None:
    settings = slot_of(tmp_path, 3)

    for idle_s in IDLE_S:
        drain_job = DrainJob(settings, parse(conf(f"127.0.0.1:{free_port()}")), handler=log_error)
        assert not drain_job.run(idle_s)
        drain_job.close()
        if "refused" in drain_job.away:
            break

    assert drain_job.outcome == Outcome(0, 0, 0, 3)
    assert "refused" in drain_job.away


def test_a_server_that_falls_silent_is_given_up(tmp_path: Path) -> None:
    def take_three(visit: Visit) -> None:
        for _ in range(3):
            visit.keep(visit.take())
            visit.ok()
        visit.until_gone()

    for idle_s in IDLE_S:
        settings = slot_of(tmp_path / f"{idle_s}", 4)
        with Sink(take_three) as sink:
            drain_job = DrainJob(settings, parse(conf(sink)), handler=log_error)
            assert not drain_job.run(idle_s)
            drain_job.close()
        if drain_job.outcome.acknowledged == 3:
            break

    assert drain_job.outcome == Outcome(3, 0, 0, 1)
    assert drain_job.away == ""


def test_a_halt_ends_it(tmp_path: Path) -> None:
    settings = slot_of(tmp_path, 2)

    def refuse(visit: Visit) -> None:
        visit.take()
        visit.reply((SCHEMA, 0, "no"), close=1000)
        visit.until_gone()

    with Sink(refuse) as sink:
        profile = parse(conf(sink) + "on_schema_error=halt;")
        drain_job = DrainJob(settings, profile, handler=lambda error: None)
        assert not drain_job.run(DEADLINE_S)
        drain_job.close()

    assert drain_job.outcome == Outcome(0, 0, 0, 2)
    assert drain_job.delivery_loop.halted is not None
