"""Slots that nobody owns: found, drained, given up with a reason, left alone when somebody has
them."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.sender.sender import Sender
from penstock.sender.slot import Slot
from penstock.sender.verdicts import SenderError
from penstock.storage.fs import OsFilesystem
from penstock.testing import FakeClock
from tests.support.sink import DEADLINE_S, PARSE, Sink, Ticking, Visit, conf, free_port


def leave(sf_dir: Path, name: str, *rows: object) -> None:
    """A slot with frames that its owner could not send."""
    keys = {"sf_dir": sf_dir, "sender_id": name, "close_flush_timeout_millis": 0}
    with Sender(conf(f"127.0.0.1:{free_port()}", **keys)) as sender:
        for row in rows:
            sender.append(f"of-{name}", row)
            sender.flush()


def keys_of(sf_dir: Path, **more: object) -> dict[str, object]:
    return {"sf_dir": sf_dir, "sender_id": "main", "drain_orphans": "on", **more}


def segments(slot: Path) -> list[Path]:
    return list(slot.glob("*.seg"))


def test_slots_that_nobody_owns_are_drained(tmp_path: Path) -> None:
    leave(tmp_path, "one", 1, 2)
    leave(tmp_path, "two", 3)
    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path))) as sender:
        sink.wait_for(lambda: sender.status().orphans == {"one": "drained", "two": "drained"})

        assert sink.rows("of-one") == [b"1", b"2"]
        assert sink.rows("of-two") == [b"3"]
        assert {visit.sender_id for visit in sink.visits} == {"main", "one", "two"}
        assert not segments(tmp_path / "one")


def test_nobody_who_did_not_ask_for_it_drains_the_slots_of_others(tmp_path: Path) -> None:
    leave(tmp_path, "one", 1)
    for keys in ({"drain_orphans": "off"}, {"max_background_drainers": 0}):
        with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path) | keys)) as sender:
            sender.append("t", 1)
            assert sender.drain(DEADLINE_S)
            assert sink.rows() == [b"1"]
    assert segments(tmp_path / "one")


def test_a_slot_whose_owner_dies_later_is_found_too(tmp_path: Path) -> None:
    clock = FakeClock()
    owner = Sender(
        conf(
            f"127.0.0.1:{free_port()}",
            sf_dir=tmp_path,
            sender_id="late",
            close_flush_timeout_millis=0,
        )
    )
    owner.append("t", "left")
    owner.flush()
    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path)), clock=clock) as sender:
        with Ticking(clock, 100):
            sink.wait_for(lambda: clock.monotonic() > 30)
            assert sink.rows() == []
            assert "late" not in sender.status().orphans  # it has an owner
            owner.close()

            sink.wait_for(lambda: sender.status().orphans == {"late": "drained"})
        assert sink.rows() == [b'"left"']


def test_no_more_are_drained_at_once_than_said(tmp_path: Path) -> None:
    clock = FakeClock()
    for number in range(5):
        leave(tmp_path, f"slot-{number}", number)
    most = 0

    def watch() -> bool:
        nonlocal most
        told = list(sender.status().orphans.values())
        most = max(most, told.count("draining"))
        return told.count("drained") == 5

    keys = keys_of(tmp_path, max_background_drainers=2)
    with Sink() as sink, Sender(conf(sink, **keys), clock=clock) as sender, Ticking(clock, 100):
        sink.wait_for(watch)

        assert most <= 2
        assert len(sink.rows()) == 5


def test_a_slot_that_was_given_up_is_left_alone(tmp_path: Path) -> None:
    leave(tmp_path, "bad", 1)
    held = Slot.open(OsFilesystem(), str(tmp_path / "bad"))
    held.mark_failed("an operator said so")
    held.release()
    leave(tmp_path, "good", 2)
    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path))) as sender:
        sink.wait_for(lambda: sender.status().orphans == {"good": "drained"})

        assert sink.rows() == [b"2"]
    assert segments(tmp_path / "bad")


def test_a_slot_that_cannot_be_read_is_given_up_with_the_reason(tmp_path: Path) -> None:
    """A hole between its segments, which nothing explains."""
    leave(tmp_path, "bad", *["x" * 30_000] * 2)
    leave_three_segments(tmp_path, "bad")
    first, middle, *_ = sorted(segments(tmp_path / "bad"))
    middle.unlink()
    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path))) as sender:
        sink.wait_for(lambda: "bad" in sender.status().orphans)

        assert sender.status().orphans["bad"].startswith("failed: ")
        assert sink.rows() == []
    assert (tmp_path / "bad" / ".failed").read_text().strip()
    assert first.exists()


def leave_three_segments(sf_dir: Path, name: str) -> None:
    for _ in range(3):
        leave(sf_dir, name, "more")


def test_a_slot_that_cannot_even_be_locked_stops_nobody(tmp_path: Path) -> None:
    """The sender's own upkeep goes on."""
    leave(tmp_path, "odd", 1)
    (tmp_path / "odd" / ".lock").unlink()
    (tmp_path / "odd" / ".lock").mkdir()
    keys = keys_of(tmp_path, auto_flush="on", auto_flush_interval=20)
    with Sink() as sink, Sender(conf(sink, **keys)) as sender:
        sink.wait_for(lambda: sender.status().is_connected)
        sender.append("t", "by the timer")

        sink.wait_for(lambda: sink.rows() == [b'"by the timer"'])
        assert sender.status().orphans["odd"].startswith("failed: ")


def test_a_file_beside_the_slots_is_no_slot(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("hello")
    leave(tmp_path, "one", 1)
    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path))) as sender:
        sink.wait_for(lambda: sender.status().orphans == {"one": "drained"})


def test_a_refusal_retires_the_slot_and_not_the_sender(tmp_path: Path) -> None:
    leave(tmp_path, "bad", 1)

    def refuse(visit: Visit) -> None:
        while True:
            frame = visit.take()
            if visit.sender_id == "bad":
                visit.reply((PARSE, 0, "what is this"), close=1000)
                visit.until_gone()
                return
            visit.keep(frame)
            visit.ok()

    told: list[SenderError] = []
    with (
        Sink(refuse) as sink,
        Sender(conf(sink, **keys_of(tmp_path)), error_handler=told.append) as sender,
    ):
        sink.wait_for(lambda: "what is this" in sender.status().orphans.get("bad", ""))
        sender.append("t", "own")

        assert sender.drain(DEADLINE_S)
        assert sender.halted is None
    assert [error.sender_id for error in told] == ["bad"]
    assert segments(tmp_path / "bad")
    assert not (tmp_path / "bad" / ".failed").exists()
    assert "what is this" in (tmp_path / "bad" / ".last_error").read_text()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_close_leaves_what_is_not_drained_to_the_next(tmp_path: Path, is_there: bool) -> None:
    leave(tmp_path, "one", 1)
    with Sink(Visit.until_gone) as silent:
        address = silent.addr if is_there else f"127.0.0.1:{free_port()}"
        with Sender(conf(address, **keys_of(tmp_path))) as sender:
            silent.wait_for(lambda: sender.status().orphans == {"one": "draining"})

    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path))) as sender:
        sink.wait_for(lambda: sender.status().orphans == {"one": "drained"})
    assert sink.rows() == [b"1"]
