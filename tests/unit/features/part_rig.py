"""A table with features of every kind of row, records for it, and what its rows must be."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.codec.columns import Columns
from penstock.features.definition import Definition, TablePlan
from penstock.features.windows import window_of

WINDOWS: dict[str, Any] = {
    "all": None,
    "sliding": "640ms",
    "tumbling": {"tumbling": "1s"},
    "hopping": {"hopping": "300ms", "every": "100ms"},
}
LATENESS_MS = 200


def definition(*, cold_after: str | None = None, key: Sequence[str] = ("name", "day")) -> Any:
    features: dict[str, Any] = {}
    for name, window in WINDOWS.items():
        features[f"n_{name}"] = {"op": "count", "window": window}
        features[f"sum_{name}"] = {"op": "sum", "field": "twice", "window": window}
        features[f"some_{name}"] = {"op": "count", "where": "(x > 5)", "window": window}
    features["last"] = {"op": "last", "field": "note"}
    table: dict[str, Any] = {"name": "T", "from": "E", "key": list(key), "features": features}
    table["steps"] = [
        {"op": "filter", "where": "(x != 3)"},
        {"op": "with_columns", "columns": {"twice": "(x * 2)"}},
    ]
    if cold_after is not None:
        table["cold_after"] = cold_after
    event = {
        "name": "E",
        "topic": "E",
        "fields": {
            "name": {"type": "str", "optional": True},
            "day": "i64",
            "x": "i64",
            "at": "i64",
            "note": {"type": "str", "optional": True},
        },
        "time": {"field": "at", "lateness": f"{LATENESS_MS}ms"},
    }
    return {"events": [event], "tables": [table]}


def plan_of(**options: Any) -> TablePlan:
    return Definition.parse(definition(**options)).plan("T")


def random_events(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Events in about the order of their times; some are late, some have no key, some are bad."""
    events = []
    clock = 1000
    for number in range(count):
        clock += chance.choice([0, 0, 1, 7, 40, 300])
        event = {
            "name": chance.choice(["a", "b", "é", None]),
            "day": chance.randrange(3),
            "x": chance.randrange(10),
            "at": clock - chance.choice([0, 0, 0, 5, 100, 190, 201, 900]),
        }
        if chance.random() < 0.5:
            event["note"] = f"note {number}"
        if chance.random() < 0.03:
            event["day"] = "Monday"
        events.append(event)
    return events


def batch(events: Sequence[Any], first_seq: int = 1, ts: int = 5000) -> Columns:
    texts = [json.dumps(event).encode() for event in events]
    count = len(texts)
    ends = [0]
    for text in texts:
        ends.append(ends[-1] + len(text))
    bits = bytearray((count + 7) // 8)
    for i in range(count):
        bits[i >> 3] |= 1 << (i & 7)
    data = struct.pack(f"<{count + 1}I", *ends), b"".join(texts), bytes(bits)
    seqs = np.arange(first_seq, first_seq + count).astype("<u8").tobytes()
    tss = np.full(count, ts).astype("<u8").tobytes()
    return Columns(count, seqs, tss, None, None, None, data)


def divided(chance: random.Random, events: list[Any], most: int) -> list[Columns]:
    batches = []
    while events:
        size = chance.randint(1, most)
        batches.append(batch(events[:size]))
        events = events[size:]
    return batches


class ExpectedRows:
    """Keeps every event and looks at all of them for each row."""

    def __init__(self, cold_after_ms: int | None = None) -> None:
        self.largest = -(10**9)
        self.counts = dict.fromkeys(("events", "bad", "late", "filtered", "ignored", "lost"), 0)
        self._cold_after_ms = cold_after_ms
        self._events: dict[tuple[Any, ...], list[dict[str, Any]]] = {}

    def add(self, events: Sequence[dict[str, Any]]) -> None:
        for event in events:
            self._add(event)

    def _add(self, event: dict[str, Any]) -> None:
        if isinstance(event["day"], str):
            self.counts["bad"] += 1
            return
        self.largest = max(self.largest, event["at"])
        key = event["name"], event["day"]
        if event["at"] < self.largest - LATENESS_MS:
            self.counts["late"] += 1
        elif event["x"] == 3:
            self.counts["filtered"] += 1
        elif event["name"] is None:
            self.counts["ignored"] += 1
        else:
            self.counts["events"] += 1
            if self._is_cold(key, self.largest):
                del self._events[key]
            self._events.setdefault(key, []).append(event)

    def _is_cold(self, key: tuple[Any, ...], now: int) -> bool:
        if self._cold_after_ms is None or key not in self._events:
            return False
        latest: int = max(event["at"] for event in self._events[key])
        return now - latest > self._cold_after_ms

    @property
    def keys(self) -> list[tuple[Any, ...]]:
        return list(self._events)

    def row(self, key: tuple[Any, ...], now: int) -> dict[str, Any] | None:
        if key not in self._events or self._is_cold(key, now):
            return None
        row: dict[str, Any] = {}
        for name, given in WINDOWS.items():
            window = window_of(given)
            seen = [e for e in self._events[key] if window.bucket_of(e["at"]) in window.live(now)]
            row[f"n_{name}"] = len(seen)
            row[f"sum_{name}"] = sum(2 * e["x"] for e in seen) if seen else None
            row[f"some_{name}"] = sum(e["x"] > 5 for e in seen)
        notes = [e["note"] for e in self._events[key] if "note" in e]
        row["last"] = notes[-1] if notes else None
        return row
