from __future__ import annotations

from penstock.engine.handle import Handle
from penstock.testing import MemoryFilesystem
from penstock.topics.topic import Topic
from penstock.types import TopicConfig
from tests.unit.storage.wal.support import open_shard


def handle_of(head: int = 0, ceiling: int = 0, last_ts: int = 0) -> Handle:
    topic = Topic(1, "t", TopicConfig(), 0)
    topic.head, topic.ceiling, topic.last_ts = head, ceiling, last_ts
    return Handle(topic, open_shard(MemoryFilesystem()))


def test_a_topic_goes_on_where_its_state_ends() -> None:
    handle = handle_of(head=41, ceiling=99, last_ts=7)

    assert (handle.next_seq, handle.reserved, handle.last_ts) == (42, 99, 7)


def test_what_servers_ask_is_the_state_of_the_topic() -> None:
    handle = handle_of(head=41)

    assert (handle.name, handle.id, handle.epoch, handle.head) == ("t", 1, 1, 41)
    assert handle.config is handle.topic.config
    assert handle.extent() == (41, handle.topic.earliest, 0, 0)
    assert (handle.queue_depth, handle.shard_group) == (0, handle.shard.group)


def test_listeners_are_woken_until_they_leave() -> None:
    handle = handle_of()
    heard: list[str] = []

    def one() -> None:
        heard.append("one")

    def two() -> None:
        heard.append("two")

    handle.listen(one)
    handle.listen(two)
    handle.wake()
    handle.unlisten(one)
    handle.wake()

    assert heard == ["one", "two", "two"]


def test_a_listener_may_leave_while_it_is_being_woken() -> None:
    handle = handle_of()
    heard: list[str] = []

    def once() -> None:
        heard.append("once")
        handle.unlisten(once)

    handle.listen(once)
    handle.wake()
    handle.wake()

    assert heard == ["once"]
