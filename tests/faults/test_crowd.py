"""R23: ten thousand idle connections and readers that never read cost others nothing but time, and
the server no more memory than its buffers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from tests.faults.crowd import Deaf, idlers, latencies_ms, p99, room_for
from tests.faults.exchange import linked
from tests.faults.readers import events
from tests.faults.site import until
from tests.faults.victim import Address, Victim, eventually
from tests.support import rig

IDLE = 10_000
MIB = 1 << 20
GROWTH_BYTES_MAX = 64 * MIB
RECORD_BYTES = 64 * 1024
FLOW_BYTES = 256 * MIB
MUTANT_FLOW_BYTES = 160 * MIB
OTHERS = 300  # appends of a client that is like any other

# Nobody is thrown out for being idle or slow while we look, and the log itself keeps little.
SETTINGS = {
    "PENSTOCK_IDLE_TIMEOUT_MS": 600_000,
    "PENSTOCK_STREAM_STALL_MS": 600_000,
    "PENSTOCK_CHECKPOINT_WAL_BYTES": 4 * MIB,
    "PENSTOCK_WAL_FILE_BYTES": 8 * MIB,
    "PENSTOCK_SEGMENT_MAX_BYTES": 4 * MIB,
    "PENSTOCK_UPKEEP_INTERVAL_MS": 20,
}


@dataclass
class Memory:
    """The most that was seen in use."""

    most: int = 0

    @contextlib.asynccontextmanager
    async def watch(self, victim: Victim) -> AsyncIterator[None]:
        async def look() -> None:
            while True:
                self.most = max(self.most, victim.anonymous_bytes())
                await asyncio.sleep(0.02)

        looking = asyncio.ensure_future(look())
        try:
            yield
        finally:
            looking.cancel()


async def flow(address: Address, topic: str, size: int) -> int:
    """Write so many bytes, in records that carry their number; how many records."""
    text = "x" * RECORD_BYTES
    count = size // RECORD_BYTES
    async with linked(address) as link:
        for first in range(0, count, 16):
            numbers = range(first, min(first + 16, count))
            records = [{"data": {"n": number, "x": text}} for number in numbers]
            reply = await link.post(f"/v0/topics/{topic}", {"records": records})
            if reply.status not in (200, 201):
                raise AssertionError(f"a write was answered {reply}")
    return count


async def session(address: Address, topic: str) -> str:
    async with linked(address) as link:
        reply = await link.post("/v0/watch", {"topics": {topic: {}}, "heartbeat_ms": 60_000})
    return str(reply.json["stream_url"])


async def deafness(
    victim: Victim, size: int, *, growth_awaited: int = 0
) -> tuple[int, int, list[float]]:
    """(memory before, the most during, latencies of others) while two readers do not read. A
    server that is to be caught is watched until it has grown so much."""
    address = victim.address
    await flow(address, "warm", 32 * MIB)
    await latencies_ms(address, 1, "deaf")
    before = victim.anonymous_bytes()
    memory = Memory()
    sse, ws = Deaf(address), Deaf(address)
    try:
        sse.watch(await session(address, "deaf"))
        ws.subscribe("deaf")
        async with memory.watch(victim):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(flow(address, "deaf", size))
                others = tasks.create_task(latencies_ms(address, OTHERS))
            if growth_awaited:
                await until(lambda: memory.most - before > growth_awaited)
    finally:
        sse.close()
        ws.close()
    return before, memory.most, others.result()


def test_idle_connections_and_deaf_readers_do_no_harm(tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "crowd")
    started = time.monotonic()
    with room_for(IDLE + 1000), Victim(home, nofile=IDLE + 1000, env=SETTINGS).start() as victim:
        address = victim.address
        quiet = asyncio.run(latencies_ms(address, OTHERS))
        alone, files = victim.anonymous_bytes(), victim.open_files()

        with idlers(address, IDLE) as crowd:
            with_idle = victim.anonymous_bytes()
            crowded = asyncio.run(latencies_ms(address, OTHERS))
            before, most, deaf = asyncio.run(deafness(victim, FLOW_BYTES))
            crowd[-1].sendall(b"GET /v0/health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            is_served = crowd[-1].recv(64).startswith(b"HTTP/1.1 200")
        eventually(lambda: victim.open_files() < files + 100, "the connections to be let go")
        after = asyncio.run(latencies_ms(address, OTHERS))

        assert victim.exit_code is None
    report(
        f"R23 crowd: {IDLE} idle connections cost {(with_idle - alone) / MIB:.0f} MiB "
        f"({(with_idle - alone) / IDLE / 1024:.1f} KiB each); two readers that do not read while "
        f"{FLOW_BYTES // MIB} MiB flow: +{(most - before) / MIB:.0f} MiB at most; p99 of others "
        f"{p99(quiet):.1f} ms alone, {p99(crowded):.1f} ms with the idle, {p99(deaf):.1f} ms "
        f"during the flow, {p99(after):.1f} ms after; {time.monotonic() - started:.0f} s"
    )
    assert is_served
    assert most - before <= GROWTH_BYTES_MAX


def test_a_reader_that_reads_again_has_missed_nothing(tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "deaf")

    async def late(victim: Victim) -> list[int]:
        address = victim.address
        await latencies_ms(address, 1, "deaf")
        numbers: list[int] = []
        head = 0
        async with linked(address) as link:
            async for fields in events(link.stream(await session(address, "deaf"), {})):
                if not head:  # the stream is open: now look away while everything is written
                    head = await flow(address, "deaf", 48 * MIB)
                if fields.get("event") == "record":
                    records = json.loads(fields["data"])["records"]
                    numbers += [record["$seq"] for record in records]
                if numbers and numbers[-1] > head:
                    return numbers
        raise AssertionError("the stream ended")

    with Victim(home, env=SETTINGS).start() as victim:
        numbers = asyncio.run(late(victim))

    report(f"R23 slow reader: {len(numbers)} records after a pause, none missing")
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_server_that_buffers_without_end_is_caught(tmp_path: Path, report: rig.Report) -> None:
    home = rig.on_disk(tmp_path, "endless")
    with Victim(home, mutant="endless-buffers", env=SETTINGS).start() as victim:
        before, most, _ = asyncio.run(
            deafness(victim, MUTANT_FLOW_BYTES, growth_awaited=GROWTH_BYTES_MAX)
        )

    report(f"R23 endless-buffers: caught, +{(most - before) / MIB:.0f} MiB")
    assert most - before > GROWTH_BYTES_MAX
