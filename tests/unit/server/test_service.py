"""The bridge between the loop and the log: orders kept, quotas held, and no disk on the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from penstock.engine import batch as batches
from penstock.engine.read import options as read_options
from penstock.errors import LogFailed, SeqMismatch, TopicNotFound
from penstock.server.appends import TopicWrite
from penstock.server.errors import ApiError
from penstock.server.http.message import BATCH
from penstock.server.service import Service
from penstock.testing import FakeClock, MemoryFilesystem
from penstock.testing.crash import VANISH
from penstock.testing.fs import Fault
from penstock.testing.log import open_memory_log
from penstock.wire import binary_batch as binary
from penstock.wire.models import WriteOptions
from tests.unit.server.bench import Bench, delete, threaded_log
from tests.unit.server.support import Site, on_loop, settled, until

ALL = read_options(1000, None, None, is_wire=True)


class Watched(MemoryFilesystem):
    """A disk that notes whoever touches it from a thread that must not."""

    def __init__(self) -> None:
        super().__init__()
        self.forbidden: threading.Thread | None = None
        self.offences: list[tuple[str, str]] = []

    def _begin(self, kind: str, path: str) -> Fault | None:
        if threading.current_thread() is self.forbidden:
            self.offences.append((kind, path))
        return super()._begin(kind, path)


# Topics.


@on_loop
async def test_there_is_no_log_before_recovery() -> None:
    service = Service(asyncio.get_running_loop(), FakeClock(), total_bytes_max=0)

    assert not service.is_open
    with pytest.raises(AssertionError, match="not open yet"):
        service.handle("t")


@on_loop
async def test_a_topic_is_made_once_and_told_once() -> None:
    bench = Bench()
    told: list[str] = []
    bench.service.feeds.on_created[told.append] = None

    made = await asyncio.gather(*(bench.service.create("t", {}) for _ in range(5)))
    for n in range(5):
        bench.append("u", [n])
    await until(lambda: len(bench.answers) == 5)

    assert sorted(is_new for _, is_new in made) == [False] * 4 + [True]
    assert bench.created == [True] + [False] * 4
    assert sorted(told) == ["t", "u"]


@on_loop
async def test_what_is_created_or_deleted_in_one_turn_shares_a_sync() -> None:
    bench = Bench()
    names = [f"t{number}" for number in range(10)]
    shards = len(bench.log.core.parts.shards)

    before = bench.log.stats().wal_syncs_total
    await asyncio.gather(*(bench.service.create(name, {}) for name in names))
    created = bench.log.stats().wal_syncs_total
    await asyncio.gather(*(delete(bench.service, name, 1) for name in names))
    deleted = bench.log.stats().wal_syncs_total

    assert 0 < created - before <= shards
    assert 0 < deleted - created <= shards


@on_loop
async def test_a_topic_that_is_there_keeps_its_configuration() -> None:
    bench = Bench()
    await bench.service.create("t", {"cap_records": 7})

    bench.append("t", [1], config={"cap_records": 1})
    await until(lambda: bench.answers)

    assert bench.created == [False]
    assert bench.log.topic("t").config.cap_records == 7


@on_loop
async def test_no_more_topics_than_allowed_however_many_ask_at_once() -> None:
    bench = Bench(open_memory_log(max_topics=3))

    made = await asyncio.gather(
        *(bench.service.create(f"t{n}", {}) for n in range(10)), return_exceptions=True
    )

    refused = [one for one in made if isinstance(one, ApiError)]
    assert len(bench.log.core.catalogue.names()) == 3
    assert len(refused) == 7
    assert refused[0].detail == {"limit": "max_topics", "max": 3}
    _, is_new = await bench.service.create(bench.log.core.catalogue.names()[0], {"cap_records": 1})
    assert not is_new, "one that is there can still be changed"


@pytest.mark.parametrize("name", ["missing", "_batches", "", "no/such"])
@on_loop
async def test_what_nobody_may_name_is_not_found(name: str) -> None:
    bench = Bench()
    bench.log.append_many([("a", [1])])

    assert bench.service.config_of(name) is None
    with pytest.raises(TopicNotFound):
        bench.service.handle(name)


@on_loop
async def test_while_a_topic_is_made_nobody_overtakes_those_who_wait_for_it() -> None:
    bench = Bench(threaded_log())
    count = 0

    while not bench.answers and count < 1000:  # which the log takes, however slow its threads are
        bench.append("t", [count])
        count += 1
        await asyncio.sleep(0)
    await until(lambda: len(bench.answers) == count)

    assert bench.datas("t") == list(range(count))
    assert [seq for seq, _ in bench.answers] == list(range(1, count + 1))
    assert not bench.service.is_waiting("t")
    await bench.close()


@on_loop
async def test_a_topic_that_may_not_be_created_is_not_found_at_once() -> None:
    bench = Bench()

    with pytest.raises(TopicNotFound):
        bench.append("t", [1], create=False)
    with pytest.raises(TopicNotFound):
        bench.append("t", [1], config={"auto_create": False})
    bench.append("t", [1], create=True, config={"auto_create": False})
    bench.append("t", [2], create=False)  # behind one that creates it
    await until(lambda: len(bench.answers) == 2)

    assert bench.datas("t") == [1, 2]


@on_loop
async def test_a_topic_that_could_not_be_made_holds_nobody_up() -> None:
    bench = Bench(open_memory_log(max_topics=1))
    await bench.service.create("other", {})

    for n in range(3):
        bench.append("t", [n])
    await until(lambda: len(bench.answers) == 3)

    assert [type(one) for one in bench.answers] == [ApiError] * 3
    bench.log.drop("other")
    bench.append("t", [3])
    await until(lambda: len(bench.answers) == 4)
    assert bench.created == [True]


# Appends.


@pytest.mark.parametrize("durability", ["ephemeral", "memory", "disk", "fsync"])
@on_loop
async def test_appends_are_answered_on_the_loop_and_in_order(durability: str) -> None:
    bench = Bench(threaded_log())
    await bench.service.create("t", {"durability": durability})

    for n in range(200):
        bench.append("t", [n])
    await until(lambda: len(bench.answers) == 200)

    assert bench.answers == [(n, False) for n in range(1, 201)]
    assert bench.threads == {threading.current_thread()}
    assert bench.datas("t") == list(range(200))
    await bench.close()


@on_loop
async def test_a_shard_is_pushed_once_for_all_that_came_in_one_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    for topic in "ab":
        bench.log.create(topic)
    shard = bench.service.handle("a").shard
    pushes: list[int] = []
    push = shard.push
    monkeypatch.setattr(shard, "push", lambda: (pushes.append(1), push()))

    for n in range(10):
        bench.append("ab"[n % 2], [n])
    assert not pushes
    await settled()

    assert len(pushes) == 1
    assert len(bench.answers) == 10


@on_loop
async def test_what_can_be_known_at_once_is_raised_at_once() -> None:
    bench = Bench()
    bench.log.create("t")

    with pytest.raises(SeqMismatch):
        bench.append("t", [1], expected_seq=5)
    bench.append("t", [1], expected_seq=0)
    await until(lambda: bench.answers)

    assert bench.answers == [(1, False)]


@on_loop
async def test_a_repeated_key_gets_the_first_answer_on_the_loop() -> None:
    bench = Bench()
    bench.log.create("t")

    for _ in range(3):
        bench.append("t", [1], key="k")
    await until(lambda: len(bench.answers) == 3)

    assert sorted(bench.answers) == [(1, False), (1, True), (1, True)]
    assert bench.datas("t") == [1]


@on_loop
async def test_a_failing_disk_is_an_answer() -> None:
    fs = MemoryFilesystem()
    bench = Bench(open_memory_log(fs))
    bench.log.create("t", durability="fsync")
    fs.fail("sync")

    bench.append("t", [1])
    await until(lambda: bench.answers)

    assert isinstance(bench.answers[0], LogFailed)


class Backwards(ThreadPoolExecutor):
    """Threads that happen to take what is waiting from the wrong end."""

    def __init__(self) -> None:
        super().__init__(1)
        self.waiting: list[Callable[[], Any]] = []

    def submit(self, call: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        self.waiting.append(lambda: call(*args, **named))
        return super().submit(lambda: None)

    def go(self) -> None:
        while self.waiting:
            self.waiting.pop()()


@pytest.mark.parametrize("is_backwards", [False, True])
@on_loop
async def test_appends_to_a_topic_in_memory_keep_their_order_when_it_needs_more_seqs(
    is_backwards: bool,
) -> None:
    """Right after a restart, and then every million records, it reserves some, which waits for
    a sync. Nobody overtakes who waits for that."""
    fs = MemoryFilesystem()
    first = threaded_log(fs)
    first.create("t", durability="ephemeral")
    first.append("t", ["before"])
    first.close()
    bench = Bench(threaded_log(fs))
    threads = Backwards()
    if is_backwards:
        bench.service._threads = threads
    count = 50

    for n in range(count):
        bench.append("t", [n])
        if n % 7 == 6:
            await asyncio.to_thread(threads.go)
    await asyncio.to_thread(threads.go)
    await until(lambda: len(bench.answers) == count)

    assert bench.datas("t")[-count:] == list(range(count))
    seqs = [seq for seq, _ in bench.answers]
    assert seqs == list(range(seqs[0], seqs[0] + count))
    assert bench.threads == {threading.current_thread()}
    await bench.close()


@on_loop
async def test_who_waited_for_seqs_gets_its_own_refusal() -> None:
    fs = MemoryFilesystem()
    first = open_memory_log(fs)
    first.create("t", durability="ephemeral")
    first.close()
    bench = Bench(open_memory_log(fs))

    bench.append("t", [1], expected_seq=77)
    bench.append("t", [2], expected_seq=0)
    await until(lambda: len(bench.answers) == 2)

    assert isinstance(bench.answers[0], SeqMismatch)
    assert bench.datas("t") == [2]


@on_loop
async def test_who_waited_for_seqs_in_vain_is_told() -> None:
    fs = MemoryFilesystem()
    first = open_memory_log(fs)
    first.create("t", durability="ephemeral")
    first.close()
    bench = Bench(open_memory_log(fs))
    fs.fail("write", persistent=True)

    for n in range(3):
        bench.append("t", [n])
    await until(lambda: len(bench.answers) == 3)

    assert all(isinstance(answer, LogFailed) for answer in bench.answers)


@on_loop
async def test_a_batch_over_topics_runs_off_the_loop() -> None:
    bench = Bench()
    for topic in "ab":
        bench.log.create(topic)
    writes = [
        TopicWrite(topic, batches.prepare([topic], tag=None, node=None, key=None))
        for topic in "abc"
    ]

    answers = await bench.service.append_batch(writes)

    assert [(one.topic, one.first_seq) for one in answers] == [("a", 1), ("b", 1), ("c", 1)]
    assert [one.created for one in answers] == [False, False, True]


@on_loop
async def test_a_batch_over_topics_keeps_its_place_among_the_appends() -> None:
    """Those before it go first, those behind it wait, and a second batch waits for both."""
    bench = Bench(threaded_log())
    for topic in "ab":
        bench.log.create(topic)

    def batch(value: str) -> asyncio.Future[Any]:
        texts = batches.prepare([value], tag=None, node=None, key=None)
        return asyncio.ensure_future(
            bench.service.append_batch([TopicWrite(topic, texts) for topic in "ab"])
        )

    bench.append("a", ["before"])
    bench.append("b", ["before"], expected_seq=0)
    first = batch("first")
    await asyncio.sleep(0)
    bench.append("a", ["between"])
    second = batch("second")
    await asyncio.sleep(0)
    bench.append("a", ["behind"])
    bench.append("b", ["behind"])
    assert bench.service.is_waiting("a")
    await asyncio.gather(first, second)
    await until(lambda: len(bench.answers) == 5)

    assert bench.datas("a") == ["before", "first", "between", "second", "behind"]
    assert bench.datas("b") == ["before", "first", "second", "behind"]
    assert not bench.service.is_waiting("a")
    await bench.close()


@on_loop
async def test_a_batch_that_fails_lets_the_topics_go() -> None:
    bench = Bench()
    bench.log.create("a")
    texts = batches.prepare([1], tag=None, node=None, key=None)
    wrong = TopicWrite("a", texts, WriteOptions(expected_seq=9))

    failing = asyncio.ensure_future(bench.service.append_batch([wrong, TopicWrite("b", texts)]))
    await asyncio.sleep(0)
    bench.append("a", [2])
    with pytest.raises(SeqMismatch):
        await failing
    await until(lambda: bench.answers)

    assert bench.datas("a") == [2]
    assert not bench.service.is_waiting("b")


# The quota.


@on_loop
async def test_all_topics_together_hold_no_more_than_the_quota() -> None:
    bench = Bench(total_bytes_max=100)
    for topic in "ab":
        bench.log.create(topic)

    bench.append("a", [b'"' + b"x" * 58 + b'"'])
    with pytest.raises(ApiError) as caught:
        bench.append("b", [b'"' + b"x" * 39 + b'"'])
    bench.append("b", [b'"' + b"x" * 38 + b'"'])

    assert caught.value.detail == {"limit": "max_total_bytes", "max": 100}
    assert sum(info.bytes for info in bench.log.topics()) <= 100


@on_loop
async def test_what_comes_again_under_its_key_needs_no_room() -> None:
    bench = Bench(total_bytes_max=10)
    bench.log.create("a")

    for _ in range(3):
        bench.append("a", [b"123456"], key="k")
        await settled()
    with pytest.raises(ApiError):
        bench.append("a", [b"123456"], key="other")

    assert bench.answers == [(1, False), (1, True), (1, True)]
    assert bench.datas("a") == [123456]


@on_loop
async def test_what_was_deleted_makes_room_again() -> None:
    bench = Bench(total_bytes_max=100)
    bench.log.create("a")
    bench.append("a", [b'"' + b"x" * 88 + b'"'])
    await settled()

    with pytest.raises(ApiError):
        bench.append("a", [b'"' + b"x" * 88 + b'"'])
    await delete(bench.service, "a", 99)
    bench.append("a", [b'"' + b"x" * 88 + b'"'])
    await settled()

    assert bench.log.topic("a").bytes == 90


@on_loop
async def test_a_batch_over_topics_is_held_to_the_quota_as_a_whole() -> None:
    bench = Bench(total_bytes_max=10)
    for topic in "ab":
        bench.log.create(topic)
    batch = batches.prepare([b"123456"], tag=None, node=None, key=None)

    with pytest.raises(ApiError):
        await bench.service.append_batch([TopicWrite(topic, batch) for topic in "ab"])

    assert bench.datas("a") == bench.datas("b") == []


# Reads.


@on_loop
async def test_what_is_in_memory_is_read_at_once_and_what_is_not_elsewhere() -> None:
    bench = Bench()
    bench.log.append("t", [1, 2])
    handle = bench.service.handle("t")
    hot, frames = (
        bench.service.read_hot(handle, 0, None, ALL),
        bench.service.frames_hot(handle, 0, None, ALL),
    )
    bench.log.compact()

    assert hot is not None
    assert frames is not None
    assert bench.service.read_hot(handle, 0, None, ALL) is None
    assert bench.service.frames_hot(handle, 0, None, ALL) is None
    assert await bench.service.read(handle, 0, None, ALL) == hot
    assert await bench.service.read_frames(handle, 0, None, ALL) == frames


@on_loop
async def test_a_topic_with_a_ttl_is_never_read_on_the_loop() -> None:
    bench = Bench()
    bench.log.create("t", ttl_ms=1000)
    bench.log.append("t", [1])

    assert bench.service.read_hot(bench.service.handle("t"), 0, None, ALL) is None


@pytest.mark.parametrize("durability", ["memory", "disk", "fsync"])
@on_loop
async def test_a_strong_read_shows_only_what_a_power_cut_leaves(durability: str) -> None:
    fs = MemoryFilesystem()
    bench = Bench(open_memory_log(fs))
    bench.log.create("t", durability=durability)
    bench.log.append("t", [1, 2])

    page = await bench.service.read(bench.service.handle("t"), 0, None, ALL, is_strong=True)

    assert page.count == 2
    cut = open_memory_log(fs.power_cut(lambda change: VANISH))
    assert [record.data for record in cut.read("t").records] == [1, 2]


@on_loop
async def test_a_strong_read_of_a_failed_log_fails() -> None:
    fs = MemoryFilesystem()
    bench = Bench(open_memory_log(fs))
    bench.log.create("t")
    bench.log.append("t", [1])
    fs.fail("sync", persistent=True)

    with pytest.raises(LogFailed):
        await bench.service.read(bench.service.handle("t"), 0, None, ALL, is_strong=True)


# No disk on the loop.


async def every_verb(site: Site) -> None:
    """Everything a caller can ask for, of topics of every class, in memory and sealed."""
    for durability in ("ephemeral", "memory", "disk", "fsync"):
        topic = f"/v0/topics/{durability}"
        await site.call("PUT", topic, {"durability": durability})
        for _ in range(3):
            await site.call("POST", topic, {"records": [{"data": 1, "tag": "t"}] * 10})
        await site.call("POST", topic, {"records": [{"data": 2}], "idempotency_key": "k"})
        body = binary.encode_write({}, [b"1", b"2"])
        await site.call("POST", topic, body, headers={b"content-type": BATCH})
        await site.call("POST", f"{topic}/diff", {})
        await site.call("POST", f"{topic}/diff", {"consistency": "strong"})
        await site.call("POST", f"{topic}/diff", {"from_ts": 1})
        await site.call("POST", f"{topic}/diff", {"from_seq": 33, "wait_ms": 1})
        await site.call("POST", f"{topic}/diff", {}, headers={b"accept": BATCH})
        await site.call("GET", topic)
        await site.call("PUT", f"{topic}/positions/me", {"seq": 3})
        await site.call("GET", f"{topic}/positions")
        await site.call("POST", f"{topic}/delete", {"before_seq": 2})
        stream = await site.stream({"topics": {durability: {}, "none*": {}}})
        await until(lambda stream=stream: b"caught-up" in stream.text)
        assert stream.on_close is not None
        stream.on_close()
        await site.call("PUT", topic, {"durability": durability, "cap_records": 5})
    writes = [{"topic": name, "records": [{"data": 1}]} for name in ("disk", "fsync", "new")]
    await site.call("POST", "/v0/batch", {"writes": writes})
    await site.call("POST", "/v0/topics/other", {"records": [{"data": 1}]})
    await site.call("GET", "/v0/topics?touch=1")
    await site.call("GET", "/v0/metrics")
    await site.call("GET", "/v0/health")


@on_loop
async def test_the_loop_never_touches_a_disk() -> None:
    fs = Watched()
    log = threaded_log(fs)
    site = Site()
    site.log.close()
    site.log = log
    site.service.adopt(log.core)
    fs.forbidden = threading.current_thread()

    await every_verb(site)
    await asyncio.to_thread(log.compact)
    await every_verb(site)
    await site.call("DELETE", "/v0/topics/disk")

    assert fs.offences == []
    await site.close()


@on_loop
async def test_the_watched_disk_would_notice() -> None:
    fs = Watched()
    log = threaded_log(fs)
    log.create("t")
    fs.forbidden = threading.current_thread()

    for number in range(1000):  # one of them finds the shard idle, and writes by itself
        log.append("t", [number])
        if fs.offences:
            break

    assert fs.offences
    await asyncio.to_thread(log.close)
