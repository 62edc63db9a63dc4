"""R17, killed: kill -9 of senders and of their server in turn loses no row that a flush returned
for, brings none twice and keeps their order."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from penstock.errors import SlotInUse
from penstock.sender.sender import Sender
from tests.support import rig
from tests.support.sender_rig import SenderRig
from tests.support.sender_worker import Order, read_journal
from tests.support.serving import DEADLINE_S, eventually
from tests.support.sink import Sink, conf

ROUNDS = 5000 if rig.IS_FULL else 100
ROUNDS_PER_DIRECTORY = 250 if rig.IS_FULL else 100
MUTANT_ROUNDS = 16
MUTANT_TRIES = 25


@pytest.mark.timeout(7200)
def test_kills_in_turn_lose_nothing_and_repeat_nothing(tmp_path: Path, report: rig.Report) -> None:
    seed = rig.new_seed()
    started = time.monotonic()

    for number in range(ROUNDS // ROUNDS_PER_DIRECTORY):
        home = rig.on_disk(tmp_path, f"senders-{number}")
        with SenderRig(home, f"{seed}.{number}") as field:
            anomalies = field.run(ROUNDS_PER_DIRECTORY)
        report(
            f"R17 kill -9: seed {seed}.{number}, {len(anomalies)} anomalies, {field.figures()}, "
            f"{time.monotonic() - started:.0f} s"
        )
        assert not anomalies, f"seed {seed}.{number}, {home}\n" + "\n".join(anomalies[:20])


@pytest.mark.parametrize(
    ("mutant", "kinds"),
    [
        ("producers-forgotten-at-restart", {"duplicated"}),
        ("producers-not-in-checkpoints", {"duplicated"}),
        ("frames-taken-twice", {"duplicated"}),
        ("answer-before-place", {"lost"}),
        ("done-when-sent", {"lost"}),
        ("goes-on-behind-what-was-sent", {"lost"}),
        ("numbers-begin-anew", {"lost"}),
        ("a-name-for-each-connection", {"duplicated"}),
    ],
)
def test_a_broken_promise_is_noticed(
    mutant: str, kinds: set[str], tmp_path: Path, report: rig.Report
) -> None:
    seed = rig.new_seed()
    started = time.monotonic()
    found: set[str] = set()

    for number in range(MUTANT_TRIES):
        home = rig.on_disk(tmp_path, f"{mutant}-{number}")
        with SenderRig(home, f"{seed}.{number}", mutant=mutant) as field:
            anomalies = field.run(MUTANT_ROUNDS)
        found |= {anomaly.partition(":")[0] for anomaly in anomalies}
        if found & kinds:
            break

    assert found & kinds, f"seed {seed}: {mutant} survived, {field.figures()}, {anomalies[:3]}"
    report(
        f"R17 {mutant}: seed {seed}, caught in try {number + 1}, "
        f"{time.monotonic() - started:.0f} s: {anomalies[0][:100]}"
    )


def test_two_processes_never_share_a_slot(tmp_path: Path) -> None:
    home = rig.on_disk(tmp_path, "shared-slot")
    with Sink() as sink, SenderRig(home, "slot") as field:
        text = conf(sink, sf_dir=home, sender_id="one")
        order = Order(text, str(home / "journal"), "one", ["t"], "seed", 0)
        pid = field.victim.hire(order)
        eventually(lambda: read_journal(home / "journal"), "a flush")

        with pytest.raises(SlotInUse, match=f"process {pid}") as caught:
            Sender(text)

        assert caught.value.pid == pid
        with Sender(conf(sink, sf_dir=home, sender_id="other")) as sender:
            sender.append("t", 1)
            assert sender.drain(DEADLINE_S)
        field.victim.end(pid, 9)
        with Sender(text) as sender:  # and now the slot is free
            assert sender.drain(DEADLINE_S)
        rows = set(sink.rows("t"))
        for one in read_journal(home / "journal"):
            for number in range(one.first, one.last + 1):
                assert any(b'"n":%d,' % number in row for row in rows)
