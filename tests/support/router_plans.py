"""Which topics and routers there are when the rig of routers goes to work."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from penstock.config import Settings
from tests.support import states

RULES: tuple[dict[str, Any], ...] = (
    {},
    {"filter": "x*"},
    {"filter": "y"},
    {"exactly_once": True},
    {"preserve_tag": False},
    {"preserve_node": False, "exactly_once": True},
)
CLASSES = ("fsync", "fsync", "disk", "disk", "memory", "ephemeral")
SHAPES: dict[str, tuple[tuple[str, str, str], ...]] = {  # router, source, destination
    "pair": (("a->b", "a", "b"),),
    "chain": (("a->b", "a", "b"), ("b->c", "b", "c")),
    "fan": (("a->b", "a", "b"), ("a->c", "a", "c")),
    "twins": (("x:a->b", "a", "b"), ("y:a->b", "a", "b")),
    "ring": (("a->b", "a", "b"), ("b->a", "b", "a")),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """Topics by name with their settings; routers as (name, source, destination, rules). Topic
    number n is put on shard n modulo their count, so that neighbours are not synced together."""

    name: str
    topics: dict[str, dict[str, Any]]
    routers: tuple[tuple[str, str, str, dict[str, Any]], ...]
    shards: int = 2
    is_steady: bool = False  # routers are not dropped and keep their rules
    weights: dict[str, int] = field(default_factory=dict)

    @property
    def bounds(self) -> Settings:
        return states.settings(shards=self.shards)


def drawn(random: Random, shape: str) -> Plan:
    """A plan of this shape, with classes, caps and rules from the seed."""
    ways = SHAPES[shape]
    names = sorted({end for way in ways for end in way[1:]})
    topics: dict[str, dict[str, Any]] = {
        name: {"durability": random.choice(CLASSES)} for name in names
    }
    if random.random() < 0.25:
        topics[names[0]]["cap_records"] = random.randrange(3, 8)
    if random.random() < 0.25:
        topics[names[-1]] |= {
            "cap_records": random.randrange(4, 9),
            "discard": random.choice(("reject", "reject", "old")),
        }
    rules = [dict(random.choice(RULES)) for _ in ways]
    if shape == "twins":
        rules = [{"filter": "x*"}, {"filter": "y"}]
    if shape == "ring":
        rules = [{"allow_cycle": True}, {"allow_cycle": True, "preserve_node": False}]
    classes = " ".join(f"{name}={config['durability']}" for name, config in topics.items())
    return Plan(
        f"{shape} {classes}",
        topics,
        tuple((*way, rule) for way, rule in zip(ways, rules, strict=True)),
        shards=random.choice((1, 2, 2, 3)),
        is_steady=shape == "ring",  # a change of its routers may bring a record back
    )
