"""R23: a process that may open few files or use little memory says so and goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.crowd import latencies_ms
from tests.faults.exchange import Link, Lost, linked
from tests.faults.victim import DEADLINE_S, Victim, eventually
from tests.support import rig

MIB = 1 << 20
NOFILE = 64
STRANGERS = 120
BODY_BYTES = 48 * MIB
GROWTH_BYTES_MAX = 64 * MIB
ATTEMPTS_MAX = 10
SPIN_MAX = 0.5  # share of a processor that a server may use that has nothing to do
IDLE_SECONDS_MAX = 60

# The log opens and closes files all the time.
RESTLESS = {
    "PENSTOCK_WAL_FILE_BYTES": 512 << 10,
    "PENSTOCK_CHECKPOINT_WAL_BYTES": 128 << 10,
    "PENSTOCK_SEGMENT_MAX_EVENTS": 50,
    "PENSTOCK_UPKEEP_INTERVAL_MS": 5,
}


@contextlib.contextmanager
def strangers(victim: Victim, count: int) -> Iterator[None]:
    """Connections to a server that cannot have so many."""
    found = []
    try:
        for _ in range(count):
            sock = socket.socket()
            sock.settimeout(DEADLINE_S)
            found.append(sock)
            sock.connect(victim.address)
        yield
    finally:
        for sock in found:
            sock.close()


async def append_much(link: Link, topic: str) -> list[int]:
    """The statuses of appends that make the log rotate, seal and checkpoint."""
    records = [{"data": "x" * 1000}] * 20
    return [
        (await link.post(f"/v0/topics/{topic}", {"records": records})).status for _ in range(40)
    ]


async def idle_second(victim: Victim) -> float:
    """Processor time of the first second in which the server uses little; of the last of some, if
    it never does. What it still has to do after the appends may take a while."""
    for _ in range(IDLE_SECONDS_MAX):
        before = victim.cpu_s()
        await asyncio.sleep(1)
        spent = victim.cpu_s() - before
        if spent < SPIN_MAX:
            break
    return spent


async def served_while_crowded(victim: Victim) -> tuple[list[int], float, int]:
    """(statuses of somebody who was there before, the share of a processor used while nothing
    happens, the server's health)"""
    async with linked(victim.address) as link:
        await append_much(link, "early")
        with strangers(victim, STRANGERS):
            statuses = await append_much(link, "early")
            spent = await idle_second(victim)
            statuses += await append_much(link, "early")
            health = (await link.request("GET", "/v0/health")).status
    return statuses, spent, health


def test_few_descriptors_turn_strangers_away_and_leave_the_log_alone(
    tmp_path: Path, report: rig.Report
) -> None:
    home = rig.on_disk(tmp_path, "files")
    with Victim(home, nofile=NOFILE, env=RESTLESS).start() as victim:
        statuses, spent, health = asyncio.run(served_while_crowded(victim))
        most = victim.open_files()
        eventually(lambda: _is_served(victim), "service after the crowd has left")

        assert victim.exit_code is None
        said = victim.said()
    report(
        f"R23 {NOFILE} descriptors: {STRANGERS} strangers, {len(statuses)} appends meanwhile "
        f"answered {sorted(set(statuses))}, {spent:.2f} s of processor in an idle second, "
        f"{most} open files after"
    )
    assert set(statuses) == {200}
    assert health == 200
    assert spent < SPIN_MAX
    assert "connections at a time" in said
    assert "connections were refused" in said


def _is_served(victim: Victim) -> bool:
    try:
        return bool(asyncio.run(latencies_ms(victim.address, 5)))
    except Lost:
        return False


def test_a_server_that_lets_everyone_in_is_caught(tmp_path: Path, report: rig.Report) -> None:
    """Whether the log needs a file while there is none left is a matter of chance."""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        home = rig.on_disk(tmp_path, f"files-{attempt}")
        with Victim(
            home, nofile=NOFILE, env=RESTLESS, mutant="connections-unbounded"
        ).start() as victim:
            statuses, _, health = asyncio.run(served_while_crowded(victim))
        if set(statuses) != {200}:
            break

    told = f"{sorted(set(statuses))}, health {health}"
    report(f"R23 connections-unbounded: caught in attempt {attempt}, {told}")
    assert set(statuses) != {200}


def _upload(victim: Victim, body: bytes, sent: int) -> int:
    """Send the first `sent` bytes of a body; the answer's status, 0 when there is none."""
    head = (
        "POST /v0/topics/big HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(victim.address, timeout=DEADLINE_S) as sock:
        try:
            sock.sendall(head.encode())
            sock.sendall(memoryview(body)[:sent])
            if sent < len(body):
                return 0
            answer = sock.recv(64)
        except ConnectionError:
            return 0
    return int(answer.split(b" ")[1]) if answer else 0


def test_half_a_body_goes_with_its_connection(tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "halves")
    body = b" " * BODY_BYTES
    with Victim(home).start() as victim:
        before = victim.anonymous_bytes()
        for _ in range(12):
            _upload(victim, body, BODY_BYTES - 1)

        def has_let_go() -> bool:
            return victim.anonymous_bytes() - before <= GROWTH_BYTES_MAX

        eventually(has_let_go, "the memory of half a body to be let go")
        growth = victim.anonymous_bytes() - before
    report(f"R23 half a body: +{growth / MIB:.0f} MiB after 12 uploads of {BODY_BYTES // MIB} MiB")


@pytest.mark.parametrize("room_mib", [64, 160, 320])
def test_little_memory_refuses_large_bodies_and_serves_small_ones(
    room_mib: int, tmp_path: Path, report: rig.Report
) -> None:
    home = rig.on_disk(tmp_path, "memory")
    records = [{"data": "x" * (MIB - 100)}] * (BODY_BYTES // MIB)
    body = json.dumps({"records": records}).encode()
    statuses: list[int] = []
    with Victim(home).start() as victim:
        asyncio.run(latencies_ms(victim.address, 5))
        bound = victim.virtual_bytes() + room_mib * MIB
        resource.prlimit(victim.pid, resource.RLIMIT_AS, (bound, bound))

        def upload() -> None:
            statuses.append(_upload(victim, body, len(body)))

        uploads = [threading.Thread(target=upload) for _ in range(8)]
        for one in uploads:
            one.start()
        for one in uploads:
            one.join()
        statuses.append(_upload(victim, b" " * (65 * MIB), 65 * MIB))
        eventually(lambda: _is_served(victim), "service after the large bodies")

        assert victim.exit_code is None
        victim.kill()
        resumed = victim.start()
        asyncio.run(latencies_ms(resumed.address, 5))
    report(
        f"R23 room for {room_mib} MiB: 8 bodies of {len(body) // MIB} MiB and one of 65 answered "
        f"{sorted(statuses)} (0: cut off), small ones served"
    )
