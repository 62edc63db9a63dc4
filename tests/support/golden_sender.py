"""The slot of a sender of an earlier commit, beside the directory of its server: how they were
filled, what they hold, and how they go on. As `golden_directories`, for both versions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import penstock
from tests.support.golden_directories import contents

Json = Any
SENDER_ID = "till-1"
TOPICS = ("sales", "small")
SERVER = {"PENSTOCK_WAL_FILE_BYTES": "16384", "PENSTOCK_WAL_SHARDS": "1"}  # its environment
DELIVERED = 10  # frames that the server acknowledged
REPEATED = 3  # frames that the server has, and whose acknowledgement the slot has lost
WAITING = 6  # frames that no server has seen
_DRAIN_S = 120.0
_NOBODY = "127.0.0.1:1"  # no server listens here


def conf(address: str, spool: Path, **more: object) -> str:
    """The connect string. Small segments, so that a few frames fill several."""
    keys = {"sf_max_segment_bytes": "4k", "sf_max_total_bytes": "64k", "auto_flush": "off"} | more
    tail = "".join(f"{key}={value};" for key, value in keys.items())
    return f"ws::addr={address};sf_dir={spool};sender_id={SENDER_ID};sf_durability=append;{tail}"


def fill_acknowledged(sender: penstock.Sender, client: penstock.Client) -> None:
    """Frames that are acknowledged, and one that the server refuses for good."""
    client.create("sales", durability="fsync")
    client.create("small", cap_records=2, discard="reject")
    for number in range(DELIVERED):
        _send(sender, "sales", *_rows(number))
    _send(sender, "small", 1, 2)
    _send(sender, "small", "refused")
    _drain(sender)


def fill_repeated(sender: penstock.Sender) -> None:
    """Frames that reach the server."""
    for number in range(DELIVERED, DELIVERED + REPEATED):
        _send(sender, "sales", *_rows(number))
    _drain(sender)


def fill_waiting(sender: penstock.Sender) -> None:
    """Frames for a server that is down."""
    for number in range(DELIVERED + REPEATED, DELIVERED + REPEATED + WAITING):
        _send(sender, "sales", *_rows(number))


def describe_slot(spool: Path) -> Json:
    """What the slot says of itself when no server can be reached."""
    with penstock.Sender(conf(_NOBODY, spool, close_flush_timeout_millis=0)) as sender:
        status = sender.status()
        return {
            "acked_fsn": sender.acked_fsn,
            "published_fsn": sender.published_fsn,
            "dead_letters": status.dead_letters,
            "frames_lost": status.counters.frames_lost,
            "torn_bytes": status.torn_bytes,
        }


def describe_server(client: penstock.Client) -> Json:
    return {topic: contents(client, topic) for topic in TOPICS}


def continue_sender(address: str, spool: Path) -> Json:
    """Deliver what waits and a new frame, make room, and send the dead letter again."""
    said: dict[str, Json] = {}
    with penstock.connect(f"http://{address}") as client:
        with penstock.Sender(conf(address, spool)) as sender:
            _send(sender, "sales", {"n": "new"})
            _drain(sender)
            said["fsns"] = [sender.acked_fsn, sender.published_fsn]
        said["delivered"] = _untimed(client)
        client.delete("small", before_seq=2)
        command = [sys.executable, "-m", "penstock.cli.main", "spool", "redrive"]
        command += [str(spool / SENDER_ID), "--to", f"ws::addr={address};", "--json"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=dict(os.environ))
        said["redriven"] = _untimed(client)["small"]
    said["slot"] = describe_slot(spool)
    return said


def _untimed(client: penstock.Client) -> Json:
    """The server's clock is the machine's: times of new records differ with each run."""
    found = describe_server(client)
    for topic in found.values():
        topic["records"] = [[seq, *rest] for seq, _, *rest in topic["records"]]
    return found


def _rows(number: int) -> list[Json]:
    return [{"frame": number, "row": row, "text": "x" * 60} for row in range(3)]


def _send(sender: penstock.Sender, topic: str, *rows: Json) -> None:
    """One frame."""
    for index, row in enumerate(rows):
        sender.append(topic, row, tag="even" if index % 2 == 0 else None, node="till")
    sender.flush()


def _drain(sender: penstock.Sender) -> None:
    if not sender.drain(_DRAIN_S):
        raise AssertionError(f"frames are left: {sender.status()}")
