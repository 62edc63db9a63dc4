"""What a spool lost is told: in the log and to the handler, once, and counted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.sender.error_policy import Category, ErrorPolicy, SenderError
from penstock.sender.sender import Sender
from tests.support.sink import DEADLINE_S, Sink, Visit, conf, free_port, take_all

NOWHERE = f"127.0.0.1:{free_port()}"


def send(sender: Sender, *rows: object) -> None:
    for row in rows:
        sender.append("t", row)
        sender.flush()


def leave(sf_dir: Path, *rows: object) -> None:
    with Sender(conf(NOWHERE, sf_dir=sf_dir, close_flush_timeout_millis=0)) as sender:
        send(sender, *rows)


def harm(slot: Path, text: bytes) -> None:
    """Damage the frame with this text, in its place: the file may be open."""
    for segment in slot.glob("*.seg"):
        with segment.open("r+b") as file:
            if (at := file.read().find(text)) >= 0:
                file.seek(at)
                file.write(b"!")
                return
    raise AssertionError(f"{text!r} is nowhere")


def break_off(visit: Visit) -> None:
    """The connection ends before anything is answered."""
    for _ in range(2):
        visit.take()


@pytest.mark.parametrize("lost", [0, 1])
def test_damage_found_at_the_opening_is_told_and_counted_once(
    lost: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leave(tmp_path, "row0", "row1", "row2")
    harm(tmp_path / "default", b"row%d" % lost)
    caplog.clear()
    told: list[SenderError] = []

    with (
        Sink(break_off, break_off, take_all) as sink,
        Sender(conf(sink, sf_dir=tmp_path), error_handler=told.append) as sender,
    ):
        assert sender.drain(DEADLINE_S)
        assert sender.status().counters.frames_lost == 1
        assert len(sender.damage) == 1
        sink.wait_for(lambda: told)

    (error,) = told
    assert (error.category, error.act) == (Category.SPOOL_DAMAGE, ErrorPolicy.LOSE)
    assert (error.fsn, error.sender_id) == (lost, "default")
    assert ".seg" in error.message
    assert caplog.text.count("is LOST") == 1


def test_frames_that_are_lost_together_are_told_together(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    leave(tmp_path, "row0", "row1", "row2", "row3")
    harm(tmp_path / "default", b"row1")
    harm(tmp_path / "default", b"row2")

    with Sink() as sink, Sender(conf(sink, sf_dir=tmp_path)) as sender:
        assert sender.drain(DEADLINE_S)
        assert sender.status().counters.frames_lost == 2
        assert sink.rows() == [b'"row0"', b'"row3"']
    assert "frame 1 is LOST: frames 1 to 2: " in caplog.text


def test_damage_found_while_running_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[SenderError] = []
    with (
        Sink(status=503) as sink,
        Sender(conf(sink, sf_dir=tmp_path), error_handler=told.append) as sender,
    ):
        send(sender, "row0", "row1", "row2")
        harm(tmp_path / "default", b"row1")
        sink.status = 101

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == [b'"row0"', b'"row2"']
        assert sender.status().counters.frames_lost == 1
        sink.wait_for(lambda: told)
    assert [(error.fsn, error.category) for error in told] == [(1, Category.SPOOL_DAMAGE)]
    assert caplog.text.count("frame 1 is LOST") == 1


def test_a_torn_tail_is_logged_counted_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As a killed process leaves it, with damage in its newest frame."""
    with Sender(conf(NOWHERE, sf_dir=tmp_path / "run", close_flush_timeout_millis=0)) as sender:
        send(sender, "row0", "row1")
        (tmp_path / "killed" / "default").mkdir(parents=True)
        name = "default/sf-0000000000000001.seg"
        shutil.copy(tmp_path / "run" / name, tmp_path / "killed" / name)
    harm(tmp_path / "killed" / "default", b"row1")
    caplog.clear()

    with Sink() as sink, Sender(conf(sink, sf_dir=tmp_path / "killed")) as sender:
        assert sender.drain(DEADLINE_S)
        assert sink.rows() == [b'"row0"']
        torn = sender.status().torn_bytes
        assert f'torn_bytes{{sender_id="default"}} {torn}\n' in sender.metrics()

    assert torn > 0
    assert f"{torn} bytes after the newest frame" in caplog.text
    (kept,) = (tmp_path / "killed" / "default" / "quarantine").glob("*.bytes")
    assert b"ow1" in kept.read_bytes()


def test_damage_of_what_was_acknowledged_is_no_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def one(visit: Visit) -> None:
        visit.keep(visit.take())
        visit.ok()
        visit.until_gone()

    with (
        Sink(one) as sink,
        Sender(conf(sink, sf_dir=tmp_path, close_flush_timeout_millis=0)) as sender,
    ):
        send(sender, "row0", "row1")
        sink.wait_for(lambda: sender.acked_fsn == 0)
    harm(tmp_path / "default", b"row0")
    told: list[SenderError] = []

    with (
        Sink() as sink,
        Sender(conf(sink, sf_dir=tmp_path), error_handler=told.append) as sender,
    ):
        assert sender.drain(DEADLINE_S)
        assert sender.status().counters.frames_lost == 0
    assert told == []
    assert "damage, but no unacknowledged frame is lost" in caplog.text
