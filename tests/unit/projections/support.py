"""A topic that is a list, and a projection that a test can add up in its head."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator

from penstock.codec.columns import DATA, META, NODE, TAG, Columns, ColumnsPage, Text
from penstock.types import Gap, Offset

LOG_ID = bytes(range(16))


def text_of(values: list[bytes | None]) -> Text:
    """Texts as a column; None where there is none."""
    ends, bits = [0], bytearray((len(values) + 7) // 8)
    for index, value in enumerate(values):
        ends.append(ends[-1] + len(value or b""))
        bits[index // 8] |= (value is not None) << index % 8
    joined = b"".join(value or b"" for value in values)
    return struct.pack(f"<{len(ends)}I", *ends), joined, bytes(bits)


class ListTail:
    """A topic in memory. `lost` seqs are reported as gaps, one by one."""

    def __init__(self, *data: bytes, epoch: int = 1, first_ts: int = 1001) -> None:
        self.topic = "t"
        self.first_ts = first_ts
        self.log_id = LOG_ID
        self.epoch = epoch
        self.records: list[tuple[bytes | None, bytes | None, bytes | None, bytes | None]] = []
        self.lost: dict[int, str] = {}
        self.is_there = True
        self.synced_seq = 0
        self.syncs = 0
        self.can_sync = True
        self.listeners: list[Callable[[], None]] = []
        self.add(*data)

    def add(
        self,
        *data: bytes | None,
        tag: bytes | None = None,
        node: bytes | None = None,
        meta: bytes | None = None,
    ) -> None:
        self.records += [(one, tag, node, meta) for one in data]
        for listener in list(self.listeners):
            listener()

    def lose(self, count: int, reason: str = "lost") -> None:
        for _ in range(count):
            self.records.append((b"", None, None, None))
            self.lost[len(self.records)] = reason

    def create_again(self, *data: bytes) -> None:
        self.epoch += 1
        self.records, self.lost, self.synced_seq, self.is_there = [], {}, 0, True
        self.add(*data)

    @property
    def head(self) -> Offset | None:
        return Offset(self.epoch, len(self.records)) if self.is_there else None

    @property
    def synced(self) -> Offset | None:
        return Offset(self.epoch, self.synced_seq) if self.is_there else None

    def sync(self) -> None:
        self.syncs += 1
        if self.can_sync:
            self.synced_seq = len(self.records)

    def read_columns(self, after: int, limit: int, bits: int) -> ColumnsPage | None:
        if not self.is_there:
            return None
        head, gap, first = len(self.records), None, after + 1
        while first in self.lost:
            gap = Gap(after + 1, first, self.lost[first], first - after, 1, head)
            first += 1
        seqs: list[int] = []
        for seq in range(first, head + 1):
            if seq in self.lost or len(seqs) == limit:
                break
            seqs.append(seq)
        last = seqs[-1] if seqs else first - 1
        rows = [self.records[seq - 1] for seq in seqs]
        columns = Columns(
            len(seqs),
            struct.pack(f"<{len(seqs)}Q", *seqs),
            struct.pack(f"<{len(seqs)}Q", *(self.first_ts + seq - 1 for seq in seqs)),
            text_of([row[2] for row in rows]) if bits & NODE else None,
            text_of([row[1] for row in rows]) if bits & TAG else None,
            text_of([row[3] for row in rows]) if bits & META else None,
            text_of([row[0] for row in rows]) if bits & DATA else None,
        )
        return ColumnsPage(columns, gap, last, head, 1, last >= head, self.epoch)

    def listen(self, listener: Callable[[], None]) -> None:
        self.listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        self.listeners.remove(listener)


class Adder:
    """Adds up numbers, and keeps the order they came in as a checksum."""

    kind = "adder"
    wanted = DATA

    def __init__(self, version: int = 1, definition: bytes = b"{}") -> None:
        self.version = version
        self.definition = definition
        self.sum = 0
        self.order = 0
        self.lost = 0

    def apply(self, columns: Columns) -> None:
        assert columns.data is not None
        packed, data, _ = columns.data
        ends = struct.unpack(f"<{columns.count + 1}I", packed)
        for start, end in itertools.pairwise(ends):
            self.sum += int(data[start:end])
            self.order = (self.order * 31 + int(data[start:end])) % 1_000_003

    def lose(self, gap: Gap) -> None:
        self.lost += gap.last - gap.first + 1

    def snapshot(self) -> Iterator[bytes]:
        now = (self.sum, self.order, self.lost)
        return (struct.pack("<q", value) for value in now)

    def restore(self, parts: Iterable[memoryview]) -> None:
        values = [struct.unpack("<q", part)[0] for part in parts]
        if len(values) != 3:
            raise ValueError("three numbers belong together")
        self.sum, self.order, self.lost = values

    @property
    def bytes(self) -> int:
        return 24
