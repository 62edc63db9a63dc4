"""Jobs of the load generator and their results, which are sent as JSON."""

from __future__ import annotations

from typing import Literal

import msgspec

HERE = b"@@"  # in a request: stands for two digits, the connection's number
TOPIC = b"######"  # in a request: stands for the topic's number
COUNT = b"%%%%"  # in an expected answer: stands for how many requests were answered before
STAMP = b"@" * 19  # in a request: stands for the time it is sent at, 19 digits


class Drive(msgspec.Struct, frozen=True, tag=True):
    """Connections that each send the next request when an answer has come.

    `hello` is sent once per connection, and the load begins when `hello_ends` has come from each.
    The requests are taken in turn, each connection beginning at another one.
    """

    requests: list[bytes]
    connections: int
    seconds: float
    in_flight: int = 1
    dialect: Literal["http", "lines", "sized", "frames"] = "http"
    lines: int = 0  # of an answer, or
    size: int = 0  # its bytes
    error: bytes = b""
    hello: bytes = b""
    hello_ends: bytes = b""
    warm_up: float = 0.3
    port: int = 0
    pid: int = 0  # the process whose CPU time is measured, with its children
    cores: list[int] = []  # where the generator may run; anywhere when empty


class Watch(msgspec.Struct, frozen=True, tag=True):
    """Streams that stay open, and one more connection that writes at a steady pace.

    The write holds STAMP, and each stream is expected to show every stamp.
    """

    streams: list[bytes]  # the request that opens each
    write: bytes
    per_second: float
    seconds: float
    port: int = 0
    pid: int = 0
    cores: list[int] = []


class EachTopic(msgspec.Struct, frozen=True, tag=True):
    """The same requests, in order, to each of many topics. Ends when all are answered.

    Each connection has its share of the topics and one request under way.
    """

    requests: list[bytes]  # with TOPIC in their path
    topics: int
    connections: int
    seconds: float  # a limit; a run that takes longer fails
    port: int = 0
    pid: int = 0
    cores: list[int] = []


class Pour(msgspec.Struct, frozen=True, tag=True):
    """Connections that keep requests in flight for some time; then one asks until the answer shows
    the effect of every request."""

    requests: list[bytes]
    connections: int
    seconds: float
    mark: bytes  # found `marks` times in the answer to a request
    marks: int
    error: bytes  # found in no good answer
    check: bytes  # the request that asks
    check_end: bytes  # at the end of its answer
    seen: bytes  # with COUNT, in the answer that is waited for
    again: bytes  # in an answer that comes too early
    in_flight: int = 1
    port: int = 0
    pid: int = 0
    cores: list[int] = []


class Load(msgspec.Struct, frozen=True):
    """The result of a job. `failure` is the reason why there is none."""

    answers: int = 0
    seconds: float = 0.0
    reads: int = 0  # pieces in which the answers arrived
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    expected: int = 0
    generator_cores: float = 0.0  # CPU seconds a second
    server_cores: float = 0.0
    others_cores: float = 0.0  # all other processes of the machine
    failure: str = ""

    @property
    def per_second(self) -> float:
        return self.answers / self.seconds if self.seconds else 0.0

    @property
    def server_us(self) -> float:
        """The server's CPU time for one answer, which other work on the machine disturbs least."""
        return self.server_cores * self.seconds / max(1, self.answers) * 1e6


Job = Drive | Watch | EachTopic | Pour


def percentile(values: list[float], share: float) -> float:
    """Of sorted values; 0 when there are none."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0.0
