"""A short, fixed piece of work that does everything a log can do, and a model of its result.

It runs on one thread, so that its system calls come in the same order each time, and reports
its progress with `send`, which is none of the calls that the rig counts.
"""

from __future__ import annotations

import copy
import socket
from dataclasses import dataclass, field
from typing import Any

import penstock
from penstock import Log, Settings
from tests.support.oracle import read_all

SETTINGS = Settings(
    background=False,
    wal_shards=2,
    wal_file_bytes=4096,
    checkpoint_wal_bytes=4096,
    segment_max_events=4,
)

Step = tuple[Any, ...]
_PAD = "p" * 700

STEPS: tuple[Step, ...] = (
    ("create", "safe", {"durability": "fsync"}),
    ("create", "fast", {"durability": "disk"}),
    ("create", "window", {"durability": "fsync", "cap_records": 5}),
    ("append", "safe", ["one"], {}),
    ("append", "safe", ["two", "three", _PAD], {"tag": "red", "idempotency_key": "k1"}),
    ("append", "fast", ["a", "b"], {"tag": "blue"}),
    ("append", "window", [1, 2, 3, 4], {}),
    ("append", "window", [5, 6, 7], {}),  # the cap takes 1 and 2
    ("append", "safe", [_PAD, _PAD, _PAD, _PAD], {"tag": "green"}),  # rolls to a new file
    ("append", "safe", [_PAD, _PAD], {}),
    ("delete", "safe", "red"),
    ("upkeep",),  # seals what is large enough
    ("append", "fast", ["c", "d", "e"], {"tag": "blue", "idempotency_key": "k2"}),
    ("checkpoint",),
    ("append", "window", [8, 9], {}),
    ("create", "window", {"durability": "fsync", "cap_records": 3}),  # a new cap takes two more
    ("delete", "fast", "bl*"),
    ("append", "fast", ["f"], {}),
    ("drop", "fast"),
    ("create", "fast", {"durability": "disk"}),
    ("append", "fast", ["again", "and again"], {}),
    ("compact",),  # seals everything, rewrites what is mostly dead, lets WAL files go
    ("reopen",),
    ("append", "safe", ["after the reopening"], {"tag": "red"}),
    ("append", "fast", [_PAD, _PAD, _PAD], {}),
    ("sync",),
    ("append", "fast", [_PAD, _PAD, _PAD], {}),
    ("delete", "safe", "green"),
    ("compact",),
    ("drop", "window"),
    ("append", "safe", ["last"], {}),
    ("compact",),
    ("close",),
)


@dataclass(slots=True)
class Topic:
    durability: str
    cap: int
    head: int = 0
    records: list[tuple[int, Any, str | None]] = field(default_factory=list)


State = dict[str, Topic]


def states() -> list[State]:
    """What a log holds before the first step, and after each."""
    found: list[State] = [{}]
    for step in STEPS:
        state = copy.deepcopy(found[-1])
        _imagine(state, step)
        found.append(state)
    return found


def _imagine(state: State, step: Step) -> None:
    match step:
        case "create", name, config:
            topic = state.setdefault(name, Topic(config["durability"], 0))
            topic.cap = config.get("cap_records", 0)
            _evict(topic)
        case "append", name, records, options:
            topic = state[name]
            for data in records:
                topic.head += 1
                topic.records.append((topic.head, data, options.get("tag")))
            _evict(topic)
        case "delete", name, tag:
            topic = state[name]
            topic.records = [r for r in topic.records if not _matches(r[2], tag)]
        case "drop", name:
            del state[name]
        case _:
            pass  # moves bytes about, changes nothing


def _evict(topic: Topic) -> None:
    if topic.cap:
        del topic.records[: -topic.cap]


def _matches(tag: str | None, wanted: str) -> bool:
    if tag is None:
        return False
    return tag.startswith(wanted[:-1]) if wanted.endswith("*") else tag == wanted


def observe(log: Log) -> State:
    """The same, read from a log. A gap that no cap explains is a violation in itself."""
    found: State = {}
    for info in log.topics():
        records, gaps, head = read_all(log, info.name)
        if gaps.ranges and not info.config.cap_records:
            raise AssertionError(f"{info.name} reports the gaps {gaps.ranges}")
        seen = [(record.seq, record.data, record.tag) for record in records]
        found[info.name] = Topic(info.config.durability, info.config.cap_records, head, seen)
    return found


def perform(log: Log, step: Step) -> None:
    match step:
        case "create", name, config:
            log.create(name, **config)
        case "append", name, records, options:
            log.append(name, records, **options)
        case "delete", name, tag:
            log.delete(name, tag=tag)
        case "drop", name:
            log.drop(name)
        case (("upkeep" | "checkpoint" | "compact" | "sync" | "close") as verb,):
            getattr(log, verb)()
        case _:
            raise AssertionError(f"unknown step {step!r}")


def run(order: dict[str, Any], fds: list[int]) -> None:
    """In a forked child: wait for the word, then do it all, telling of each step's end."""
    control = socket.socket(fileno=fds[1])
    control.recv(1)
    log = penstock.open(order["path"], settings=SETTINGS)
    for step in STEPS:
        if step == ("reopen",):
            log.close()
            log = penstock.open(order["path"], settings=SETTINGS)
        else:
            perform(log, step)
        control.send(b".")
