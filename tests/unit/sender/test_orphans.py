"""Slots that nobody owns: found, drained, given up with a reason, left alone when somebody has
them."""

from __future__ import annotations

import errno
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from penstock.clock import SystemClock
from penstock.sender import orphans as orphans_module
from penstock.sender.connect_string import parse
from penstock.sender.error_inbox import ErrorInbox
from penstock.sender.error_policy import Category, SenderError
from penstock.sender.opening import open_spool
from penstock.sender.orphans import Orphans
from penstock.sender.sender import Sender
from penstock.sender.slot import Slot
from penstock.sender.spool import Spool
from penstock.storage.fs import OsFile, OsFilesystem
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
        sink.wait_for(lambda: sender.status().orphans.get("bad", "draining") != "draining")

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
        sink.wait_for(lambda: sender.status().orphans.get("odd", "").startswith("failed: "))


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
        sink.wait_for(lambda: told)
    assert [error.sender_id for error in told] == ["bad"]
    assert segments(tmp_path / "bad")
    assert not (tmp_path / "bad" / ".failed").exists()
    assert "what is this" in (tmp_path / "bad" / ".last_error").read_text()


def test_a_close_leaves_what_is_not_drained_to_the_next(tmp_path: Path) -> None:
    leave(tmp_path, "one", 1)
    with Sink(Visit.until_gone) as silent, Sender(conf(silent, **keys_of(tmp_path))) as sender:
        silent.wait_for(lambda: sender.status().orphans == {"one": "draining"})

    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path))) as sender:
        sink.wait_for(lambda: sender.status().orphans == {"one": "drained"})
    assert sink.rows() == [b"1"]


def test_without_a_server_slots_stay_free_for_their_owners(tmp_path: Path) -> None:
    leave(tmp_path, "one", 1)
    nowhere = f"127.0.0.1:{free_port()}"
    with Sender(conf(nowhere, **keys_of(tmp_path))) as sender, Sink() as idle:
        idle.wait_for(lambda: sender.status().counters.connect_attempts > 5)
        sender.append("t", 1)
        sender.flush()

        leave(tmp_path, "one", 2)  # its owner comes, and goes again

        assert sender.status().orphans == {}


def test_a_slot_is_given_back_when_the_server_goes_away(tmp_path: Path) -> None:
    leave(tmp_path, "one", 1)
    clock = FakeClock()
    with Sink(Visit.until_gone) as silent:
        sender = Sender(
            conf(silent, **keys_of(tmp_path, close_flush_timeout_millis=0)), clock=clock
        )
        silent.wait_for(lambda: sender.status().orphans == {"one": "draining"})

    with sender, Ticking(clock, 100), Sink() as idle:
        idle.wait_for(lambda: sender.status().orphans == {"one": "left for later"})
        Slot.open(OsFilesystem(), str(tmp_path / "one")).release()


def test_a_slot_is_not_given_back_before_every_host_was_tried(tmp_path: Path) -> None:
    leave(tmp_path, "one", 1)
    clock = FakeClock()
    with socket.create_server(("127.0.0.1", 0)) as mute, Sink() as sink:
        mute.settimeout(DEADLINE_S)
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        keys = keys_of(tmp_path, auth_timeout_ms=round(1000 * DEADLINE_S))
        with Sender(conf(address, sink, **keys), clock=clock) as sender, Ticking(clock, 1000):
            mute.accept()[0].close()  # the sender itself goes to the second at once
            caller, _ = mute.accept()
            with caller:  # it hears nothing for longer than a slot is kept without a server
                until_s = clock.monotonic() + 60
                sink.wait_for(lambda: clock.monotonic() > until_s)
                assert sender.status().orphans == {"one": "draining"}
            sink.wait_for(lambda: sender.status().orphans == {"one": "drained"})
        attempts = sender.status().orphan_counters.connect_attempts

    assert sink.rows() == [b"1"]
    assert attempts == 2


# Trouble.


class Refusing(OsFilesystem):
    """Refuses to list one folder, and to make one file."""

    def __init__(self, *, listing: str = "?", making: str = "?") -> None:
        super().__init__()
        self._listing = listing
        self._making = making

    def list(self, path: str) -> list[str]:
        if path.endswith(self._listing):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return super().list(path)

    def create(self, path: str) -> OsFile:
        if self._making in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().create(path)


class Gate:
    """`open_spool`, held up for one slot until the gate opens."""

    def __init__(self, sender_id: str) -> None:
        self.is_reached = threading.Event()
        self.is_open = threading.Event()
        self._sender_id = sender_id

    def __call__(self, settings: Any, **given: Any) -> Spool:
        assert settings.sender_id == self._sender_id
        self.is_reached.set()
        assert self.is_open.wait(DEADLINE_S)
        return open_spool(settings, **given)


def test_a_folder_that_cannot_be_listed_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir()
    leave(tmp_path, "open", 1)
    fs = Refusing(listing="/closed")
    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path)), fs=fs) as sender:
        sink.wait_for(lambda: sender.status().orphans.get("open") == "drained")

        assert "Permission denied" in sender.status().orphans["closed"]


def test_a_slot_that_takes_long_to_open_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, "large", 1)
    gate = Gate("large")
    monkeypatch.setattr(orphans_module, "open_spool", gate)
    keys = keys_of(tmp_path, auto_flush="on", auto_flush_interval=20)
    with Sink() as sink, Sender(conf(sink, **keys)) as sender:
        assert gate.is_reached.wait(DEADLINE_S)
        sender.append("t", "by the timer")

        sink.wait_for(lambda: sink.rows() == [b'"by the timer"'])
        gate.is_open.set()
        sink.wait_for(lambda: sender.status().orphans == {"large": "drained"})


def test_a_close_while_a_slot_is_being_opened_lets_go_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, "large", 1)
    gate = Gate("large")
    monkeypatch.setattr(orphans_module, "open_spool", gate)
    monkeypatch.setattr(orphans_module.Drainer, "join", lambda self, timeout_s: None)
    with Sink() as sink:
        with Sender(conf(sink, **keys_of(tmp_path))):
            assert gate.is_reached.wait(DEADLINE_S)
        gate.is_open.set()

        drainers = [
            one for one in threading.enumerate() if one.name == "penstock-sender-drain large"
        ]
        for thread in drainers:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
        Slot.open(OsFilesystem(), str(tmp_path / "large")).release()
        assert sink.rows() == []


def test_nothing_is_started_after_a_close(tmp_path: Path) -> None:
    leave(tmp_path, "one", 1)
    profile = parse(conf(f"127.0.0.1:{free_port()}", **keys_of(tmp_path)))
    orphans = Orphans(profile, FakeClock(), ErrorInbox(16, None), lambda: 0.5, None, lambda: True)

    orphans.close()
    orphans.check()

    assert orphans.report() == {}
    Slot.open(OsFilesystem(), str(tmp_path / "one")).release()


def test_a_note_that_finds_no_space_ends_no_drainer(tmp_path: Path) -> None:
    leave(tmp_path, "one", 1)
    port = free_port()
    profile = parse(conf(f"127.0.0.1:{port}", **keys_of(tmp_path)))
    fs = Refusing(making=".last_error")
    orphans = Orphans(profile, SystemClock(), ErrorInbox(16, None), lambda: 0.0, fs, lambda: True)
    orphans.check()
    with Sink() as idle:
        idle.wait_for(lambda: orphans.counters().connect_attempts > 5)
    assert orphans.report() == {"one": "draining"}

    with Sink(port=port) as sink:
        sink.wait_for(lambda: orphans.check() and orphans.report() == {"one": "drained"})

    assert sink.rows() == [b"1"]
    orphans.close()


def test_a_failure_that_may_pass_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leave(tmp_path, "one", 1)
    tries: list[str] = []

    def unwell(settings: Any, **given: Any) -> Spool:
        tries.append(settings.sender_id)
        if len(tries) < 3:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return open_spool(settings, **given)

    monkeypatch.setattr(orphans_module, "open_spool", unwell)
    clock = FakeClock()
    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path)), clock=clock) as sender:
        sink.wait_for(lambda: tries)
        with Ticking(clock, 100):
            sink.wait_for(lambda: sender.status().orphans == {"one": "drained"})

    assert clock.monotonic() > 120  # with rests between
    assert caplog.text.count("Too many open files") == 1


def test_a_bug_in_a_drainer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(tmp_path, "one", 1)

    def broken(settings: Any, **given: Any) -> Spool:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(orphans_module, "open_spool", broken)
    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path))) as sender:
        sink.wait_for(lambda: sender.status().orphans == {"one": "failed: oops"})


def test_slots_are_found_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spool").mkdir()
    monkeypatch.chdir(tmp_path)
    clock = FakeClock()
    keys = keys_of(Path("spool"))
    with Sink() as sink, Sender(conf(sink, **keys), clock=clock) as sender:
        monkeypatch.chdir("/")
        leave(tmp_path / "spool", "late", 1)
        with Ticking(clock, 100):
            sink.wait_for(lambda: sender.status().orphans == {"late": "drained"})


def test_a_damaged_frame_of_another_slot_is_told(tmp_path: Path) -> None:
    leave(tmp_path, "one", "row0", "row1", "row2")
    (segment,) = segments(tmp_path / "one")
    segment.write_bytes(segment.read_bytes().replace(b"row1", b"rot1"))
    told: list[SenderError] = []
    with (
        Sink() as sink,
        Sender(conf(sink, **keys_of(tmp_path)), error_handler=told.append) as sender,
    ):
        sink.wait_for(lambda: sender.status().orphans.get("one", "").startswith("drained"))
        status = sender.status()
        sink.wait_for(lambda: told)

    assert status.orphans == {"one": "drained, frames lost to damage: 1"}
    assert (status.orphan_counters.frames_lost, status.counters.frames_lost) == (1, 0)
    assert [(one.category, one.fsn, one.sender_id) for one in told] == [
        (Category.SPOOL_DAMAGE, 1, "one")
    ]


def test_what_drainers_did_is_counted_apart(tmp_path: Path) -> None:
    leave(tmp_path, "one", 1, 2)
    leave(tmp_path, "two", 3)
    with Sink() as sink, Sender(conf(sink, **keys_of(tmp_path))) as sender:
        sink.wait_for(lambda: list(sender.status().orphans.values()) == ["drained"] * 2)
        status = sender.status()

        of_orphans = status.orphan_counters
        assert (of_orphans.frames_sent, of_orphans.frames_acked) == (3, 3)
        assert (of_orphans.connects, status.counters.frames_acked) == (2, 0)
        assert 'orphan_frames_acked_total{sender_id="main"} 3\n' in sender.metrics()
