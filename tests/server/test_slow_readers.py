"""Readers that do not read: nothing is queued for them, and what they miss they are told."""

from __future__ import annotations

from typing import Any

from tests.server.conftest import Start
from tests.server.support import Api, Later, api_of
from tests.support.serving import eventually

SMALL = 64 * 1024  # of what the kernel holds for a reader that does not read
LARGE = "x" * 50_000


def counted(api: Api) -> Any:
    return api.get("/v0/metrics", {"Accept": "application/json"}).json


def test_a_slow_stream_is_told_of_what_went_meanwhile(start: Start) -> None:
    """Every seq is delivered or lies in a gap that was told, in order, each exactly once."""
    api = api_of(start(PENSTOCK_STREAM_BUFFER_BYTES=str(SMALL)))
    api.create("t", cap_records=20)
    wid = api.watch(["t"])["wid"]
    with api.stream(wid, receive_bytes=SMALL) as stream:
        stream.until("caught-up")  # what is told at the first read has another reason
        for _ in range(60):
            api.write("t", *[LARGE] * 10)
        head = api.state("t")["head_seq"]

        seen, reasons = 0, []
        while seen < head:
            frame = stream.next()
            assert frame is not None
            if frame.event == "record":
                assert frame.seqs == list(range(seen + 1, frame.json["to_seq"] + 1))
                seen = frame.json["to_seq"]
            elif frame.event == "tombstone":
                assert frame.json["gap_from"] == seen + 1
                seen = frame.json["gap_to"]
                assert frame.cursors == {"t": seen}
                reasons.append(frame.json["reason"])
        api.write("t", "live again")
        assert stream.one("record").json["records"][0]["data"] == "live again"

    assert head == 600
    assert reasons
    assert set(reasons) == {"cap"}


def test_a_slow_socket_is_told_of_what_went_meanwhile(start: Start) -> None:
    api = api_of(start(PENSTOCK_STREAM_BUFFER_BYTES=str(SMALL)))
    api.create("t", cap_records=20)
    with api.socket(max_queue=1) as socket:
        socket.ask("subscribe", topic="t", limit=10)
        for _ in range(80):
            api.write("t", *[LARGE] * 10)
        head = api.state("t")["head_seq"]

        seen, gaps = 0, 0
        while seen < head:
            message = socket.next()
            if message["op"] == "record":
                assert message["from_seq"] == seen
                seen = message["to_seq"]
            elif message["op"] == "tombstone":
                assert message["gap_from"] == seen + 1
                assert message["reason"] == "cap"
                seen = message["gap_to"]
                gaps += 1

    assert gaps > 0


def test_a_slow_stream_does_not_slow_the_others(start: Start) -> None:
    api = api_of(start(PENSTOCK_STREAM_BUFFER_BYTES=str(SMALL)))
    api.create("t", cap_records=100)
    wid = api.watch(["t"])["wid"]
    with (
        api.stream(wid, receive_bytes=SMALL) as slow,
        api.follow(["t"], heartbeat_ms=60_000) as quick,
    ):
        slow.next()
        for n in range(100):
            api.write("t", [n, LARGE])
            assert quick.one("record").json["records"][0]["data"][0] == n


def test_a_stream_without_progress_is_closed(start: Start) -> None:
    api = api_of(start(PENSTOCK_STREAM_BUFFER_BYTES=str(SMALL), PENSTOCK_STREAM_STALL_MS="500"))
    api.create("t", cap_records=100)
    wid = api.watch(["t"])["wid"]
    with api.stream(wid, receive_bytes=SMALL) as stream:
        stream.next()
        for _ in range(20):
            api.write("t", *[LARGE] * 10)

        eventually(lambda: counted(api)["sse_connections"] == 0, "the stream is given up")
        assert stream.wire.read_rest() is not None
    api.create("t", cap_records=1)  # what is left fits where nobody has to hurry
    api.write("t", "small")
    with api.stream(wid) as again:
        assert again.one("record").seqs


def test_an_idle_stream_that_reads_is_not_closed(start: Start) -> None:
    """No progress means that there is something to send and nobody takes it."""
    api = api_of(start(PENSTOCK_STREAM_STALL_MS="200", PENSTOCK_TEST_MIN_HEARTBEAT_MS="50"))
    api.create("t")
    with api.follow(["t"], heartbeat_ms=50) as stream:
        for _ in range(12):
            assert stream.next() is not None
        api.write("t", 1)

        assert stream.one("record").seqs == [1]


def test_a_slow_answer_holds_nothing_up(start: Start) -> None:
    """A client that asks for much and does not take it, while others go on."""
    api = api_of(start())
    for _ in range(8):
        api.write("t", *["x" * 1_000_000])
    wid = api.watch(["t"], max_batch_bytes=8 << 20)["wid"]
    with api.stream(wid, receive_bytes=SMALL) as stream:
        with Later(lambda: [api.write("other", n) for n in range(50)]) as writing:
            assert len(writing.result()) == 50
        assert stream.one("record").seqs[0] == 1
