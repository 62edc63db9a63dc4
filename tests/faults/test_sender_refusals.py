"""R17, refused: each category of refusal under each policy, and connections that end badly."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.errors import ConnectionFailed, SenderHalted, Unauthorized
from penstock.sender.error_policy import SenderError
from penstock.sender.sender import Sender
from penstock.sender.slot import Slot
from penstock.storage.fs import OsFilesystem
from penstock.testing import FakeClock
from tests.support.serving import eventually
from tests.support.sink import (
    DEADLINE_S,
    INTERNAL,
    OK,
    PARSE,
    SCHEMA,
    SECURITY,
    WRITE,
    Script,
    Sink,
    Ticking,
    Visit,
    conf,
    take_all,
)

CATEGORIES = {
    SCHEMA: ("schema", "drop"),
    WRITE: ("write", "drop"),
    PARSE: ("parse", "halt"),
    INTERNAL: ("internal", "halt"),
    SECURITY: ("security", "halt"),
}


def refuse(status: int, text: str = "no") -> Script:
    """Take the first frame and refuse the second."""

    def script(visit: Visit) -> None:
        visit.keep(visit.take())
        visit.ok()
        visit.take()
        visit.reply((status, 1, text), close=1000)
        visit.until_gone()

    return script


class Errors:
    """What an error handler was told."""

    def __init__(self) -> None:
        self.told: list[SenderError] = []
        self._changed = threading.Condition()

    def __call__(self, error: SenderError) -> None:
        with self._changed:
            self.told.append(error)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.told) >= count, DEADLINE_S)


def send(sender: Sender, *rows: object) -> None:
    """A frame for each row."""
    for row in rows:
        sender.append("t", row)
        sender.flush()


def policies() -> list[tuple[int, str, str]]:
    """Status, the keys of a connect string, and what follows from them."""
    found = []
    for status, (word, default) in CATEGORIES.items():
        found.append((status, "", default))
        for policy in ("drop", "halt", "retry"):
            found.append((status, f"on_{word}_error={policy};", policy))
            found.append((status, f"on_server_error={policy};", policy))
    return found


@pytest.mark.parametrize("is_disk", [True, False], ids=["disk", "memory"])
@pytest.mark.parametrize(("status", "keys", "act"), policies())
def test_a_refusal_is_met_as_the_connect_string_says(
    status: int, keys: str, act: str, is_disk: bool, tmp_path: Path
) -> None:
    errors = Errors()
    place = {"sf_dir": tmp_path} if is_disk else {}
    with (
        Sink(refuse(status), take_all) as sink,
        Sender(conf(sink, **place) + keys, error_handler=errors) as sender,
    ):
        send(sender, 0)
        sink.wait_for(lambda: len(sink.kept) == 1)
        send(sender, 1)
        errors.wait_for(1)

        (told,) = errors.told
        if act == "drop" and not is_disk:
            assert (told.fsn, told.act, told.status) == (1, "lose", status)
            assert told.message.startswith("no; ")
            assert "LOST" in told.message
        else:
            assert (told.fsn, told.act, told.status, told.message) == (1, act, status, "no")
        assert (told.topic, told.host, told.sender_id) == ("t", sink.addr, "default")
        if act == "halt":
            with pytest.raises(SenderHalted, match="no"):
                sender.append("t", 2)
            with pytest.raises(SenderHalted, match="frame 1 stays"):
                sender.flush()
            assert (sender.acked_fsn, sender.published_fsn) == (0, 1)
            assert sender.halted == told
        else:
            send(sender, 2)
            assert sender.drain(DEADLINE_S)
            assert sink.rows() == ([b"0", b"2"] if act == "drop" else [b"0", b"1", b"2"])
        assert sender.status().counters.frames_rejected == 1
        assert sender.status().dead_letters == (act == "drop" and is_disk)

    if is_disk:
        notes = dead_letters(tmp_path / "default")
        assert [(note["fsn"], note["status"]) for note in notes] == (
            [(1, status)] if act == "drop" else []
        )


def dead_letters(path: Path) -> list[dict[str, object]]:
    slot = Slot.open(OsFilesystem(), str(path))
    try:
        return slot.dead_letters()
    finally:
        slot.release()


def test_after_a_halt_the_next_sender_starts_with_the_refused_frame(tmp_path: Path) -> None:
    with Sink(refuse(PARSE), take_all) as sink:
        with Sender(conf(sink, sf_dir=tmp_path)) as sender:
            send(sender, 0, 1, 2)
            sink.wait_for(lambda: sender.halted)

        with Sender(conf(sink, sf_dir=tmp_path)) as sender:
            assert sender.drain(DEADLINE_S)

        assert sink.rows() == [b"0", b"1", b"2"]
        assert [visit.first_fsn for visit in sink.visits] == [0, 1]


def test_rows_that_were_not_flushed_when_sending_stopped_stay_in_the_slot(tmp_path: Path) -> None:
    with Sink(refuse(PARSE), take_all) as sink:
        with Sender(conf(sink, sf_dir=tmp_path)) as sender:
            send(sender, 0, 1)
            sender.append("t", 2)
            sink.wait_for(lambda: sender.halted)

        with Sender(conf(sink, sf_dir=tmp_path)) as sender:
            assert sender.drain(DEADLINE_S)

        assert sink.rows() == [b"0", b"1", b"2"]


def test_every_frame_may_be_refused_and_the_sender_is_done_with_them() -> None:
    def script(visit: Visit) -> None:
        visit.take()
        visit.reply((SCHEMA, 0, "never"), close=1000)
        visit.until_gone()

    errors = Errors()
    with Sink(script) as sink, Sender(conf(sink), error_handler=errors) as sender:
        send(sender, *range(5))

        assert sender.drain(DEADLINE_S)
        errors.wait_for(5)
        assert [error.fsn for error in errors.told] == [0, 1, 2, 3, 4]


def test_an_answer_and_a_goodbye_in_one_breath_are_no_failure() -> None:
    """A server that stops says what it has taken and closes; the sender has more to send."""

    def script(visit: Visit) -> None:
        for _ in range(8):
            visit.keep(visit.take())
        visit.reply((OK, 7), close=1001)
        visit.until_gone()

    with Sink(script, take_all) as sink, Sender(conf(sink)) as sender:
        big = b'"' + b"x" * 1_000_000 + b'"'
        send(sender, *[big] * 20)

        assert sender.drain(DEADLINE_S)
        assert len(sink.rows()) == 20


@pytest.mark.parametrize("code", [1000, 1001, 1012, 1013])
def test_a_server_that_goes_away_politely_is_nobodys_fault(code: int) -> None:
    def script(visit: Visit) -> None:
        visit.take()
        visit.close(code)
        visit.until_gone()

    scripts = [script] * 10 + [take_all]
    keys = {"max_frame_rejections": 1, "poison_min_escalation_window_millis": 0}
    with Sink(*scripts) as sink, Sender(conf(sink, **keys)) as sender:
        send(sender, 0)

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == [b"0"]


def test_a_frame_before_which_connections_end_again_and_again_stops_the_sender() -> None:
    def script(visit: Visit) -> None:
        visit.take()
        visit.close(1011)
        visit.until_gone()

    keys = {"max_frame_rejections": 3, "poison_min_escalation_window_millis": 0}
    errors = Errors()
    with Sink(script) as sink, Sender(conf(sink, **keys), error_handler=errors) as sender:
        send(sender, 0)
        errors.wait_for(1)

        assert errors.told[0].category == "protocol_violation"
        assert errors.told[0].fsn == 0
        assert len(sink.visits) == 3
        with pytest.raises(SenderHalted, match="3 connections ended before frame 0"):
            sender.flush()


def test_a_frame_is_not_given_up_before_the_window_is_over() -> None:
    def script(visit: Visit) -> None:
        visit.take()
        visit.close(1011)
        visit.until_gone()

    clock = FakeClock()
    with Sink(script) as sink, Sender(conf(sink), clock=clock) as sender:
        send(sender, 0)
        call_again(clock, sink, 5)  # more often than it takes, and all within a moment
        clock.advance(4000)
        call_again(clock, sink, 2)
        assert sender.halted is None
        with Ticking(clock, 10):
            sink.wait_for(lambda: clock.monotonic() > 6)
            sink.wait_for(lambda: sender.halted)


def call_again(clock: FakeClock, sink: Sink, count: int) -> None:
    """Let just so much time go by that the sender comes back so often: its rests are short."""
    wanted = len(sink.visits) + count

    def has_come() -> bool:
        clock.advance(1)
        return len(sink.visits) >= wanted

    eventually(has_come, f"{count} more connections")


def test_a_server_that_ends_idle_connections_does_not_stop_the_sender() -> None:
    """There is no frame that could be to blame."""

    def script(visit: Visit) -> None:
        visit.close(1011)
        visit.until_gone()

    scripts = [script] * 10 + [take_all]
    keys = {"max_frame_rejections": 1, "poison_min_escalation_window_millis": 0}
    with Sink(*scripts) as sink, Sender(conf(sink, **keys)) as sender:
        sink.wait_for(lambda: len(sink.visits) > 10)
        send(sender, 0)

        assert sender.drain(DEADLINE_S)


def test_a_server_that_drops_every_connection_is_not_called_without_a_rest() -> None:
    clock = FakeClock()
    with Sink(lambda visit: None) as sink, Sender(conf(sink), clock=clock):
        sink.wait_for(lambda: len(sink.visits) >= 1)
        threading.Event().wait(0.5)  # time enough for thousands, were there no rest

        assert len(sink.visits) < 20


WRONG: dict[str, Callable[[Visit], None]] = {
    "short": lambda visit: visit.send_binary(b"\0"),
    "a text": lambda visit: visit.send_text("OK"),
    "of a frame that was not sent": lambda visit: visit.reply((OK, 7)),
    "of a sync nobody asked for": lambda visit: visit.reply((2, 0)),
    "not even framed": lambda visit: visit._link.sendall(b"\xff" * 100),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_an_answer_that_makes_no_sense_ends_the_connection_and_nothing_is_lost(wrong: str) -> None:
    def script(visit: Visit) -> None:
        visit.take()
        WRONG[wrong](visit)
        visit.until_gone()

    with Sink(script, script, take_all) as sink, Sender(conf(sink)) as sender:
        send(sender, 0)

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == [b"0"]


# The handshake.


@pytest.mark.parametrize("status", [401, 403])
def test_wrong_credentials_stop_the_sender(status: int) -> None:
    errors = Errors()
    with (
        Sink(status=status) as sink,
        Sender(conf(sink, token="hush"), error_handler=errors) as sender,
    ):
        errors.wait_for(1)

        assert errors.told[0].category == "security_error"
        assert "hush" not in str(errors.told[0])
        with pytest.raises(SenderHalted, match="credentials"):
            send(sender, 0)


def test_wrong_credentials_are_told_at_once_to_who_waits_for_a_connection() -> None:
    with Sink(status=401) as sink, pytest.raises(Unauthorized, match="credentials"):
        Sender(conf(sink, initial_connect_retry="sync"))


def test_credentials_that_are_to_be_tried_again_are() -> None:
    with Sink(status=401) as sink, Sender(conf(sink, on_security_error="retry")) as sender:
        send(sender, 0)
        sink.wait_for(lambda: sink.requests >= 3)
        sink.status = 101

        assert sender.drain(DEADLINE_S)


@pytest.mark.parametrize("status", [404, 421, 426, 429, 500, 503])
def test_other_refusals_of_the_handshake_are_tried_again(status: int) -> None:
    with Sink(status=status) as sink, Sender(conf(sink)) as sender:
        send(sender, 0)
        sink.wait_for(lambda: sink.requests >= 3)
        sink.status = 101

        assert sender.drain(DEADLINE_S)


@pytest.mark.parametrize("status", [404, 421, 503])
def test_who_does_not_want_to_wait_is_told(status: int) -> None:
    with Sink(status=status) as sink, pytest.raises(ConnectionFailed, match=sink.addr):
        Sender(conf(sink, initial_connect_retry="off"))
    assert sink.requests == 1


def test_a_handshake_that_is_none_is_tried_again() -> None:
    """Not every 101 is a WebSocket."""
    with (
        Sink(headers={"Sec-WebSocket-Accept": "bm8="}) as sink,
        Sender(conf(sink)) as sender,
    ):
        send(sender, 0)
        sink.wait_for(lambda: sink.requests >= 3)
        sink.headers.clear()

        assert sender.drain(DEADLINE_S)


# Frames the server would not take.


def test_a_frame_over_the_servers_bound_is_put_aside_and_the_others_arrive(tmp_path: Path) -> None:
    errors = Errors()
    with (
        Sink(headers={"x-penstock-frame-bytes-max": "1000"}) as sink,
        Sender(conf(sink, sf_dir=tmp_path), error_handler=errors) as sender,
    ):
        send(sender, 0, "x" * 2000, 2)

        assert sender.drain(DEADLINE_S)
        assert sink.rows() == [b"0", b"2"]
        errors.wait_for(1)
        assert (errors.told[0].fsn, errors.told[0].category) == (1, "schema_mismatch")
        assert "the server's maximum is 1000" in errors.told[0].message
    assert [note["fsn"] for note in dead_letters(tmp_path / "default")] == [1]
