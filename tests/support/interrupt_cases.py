"""The verbs that the interrupt rig interrupts: each with what is there before, and the outcomes
that are legal besides "nothing happened" and "all of it happened"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock import Log
from penstock.types import Job

CLASSES = ("ephemeral", "memory", "disk", "fsync")


class HeldClock(Protocol):
    """A clock that the rig can move forward."""

    def advance(self, ms: float) -> None: ...


@dataclass
class World:
    """A log and what its case has to remember about it."""

    log: Log
    clock: HeldClock
    jobs: list[Job] = field(default_factory=list)  # leased to worker "w" before the verb


Act = Callable[[World], object]


@dataclass(frozen=True)
class Case:
    """One verb. `topics` get another record each after the interrupt, in this order: a source
    before its destination. A case that `repeats` is done once more then, with the same key."""

    setup: Act
    act: Act
    topics: tuple[str, ...] = ("t",)
    between: tuple[Act, ...] = ()
    repeats: bool = False


CASES: dict[str, Case] = {}


def _create(name: str, *, count: int = 3, **config: Any) -> Act:
    """A topic with `count` records, tags a and b in turn."""

    def setup(world: World) -> None:
        world.log.create(name, **config)
        for number in range(1, count + 1):
            world.log.append(name, [number], tag="ab"[number % 2])

    return setup


def _all(*acts: Act) -> Act:
    def setup(world: World) -> None:
        for act in acts:
            act(world)

    return setup


def _append(topic: str, records: list[Any], **options: Any) -> Act:
    return lambda world: world.log.append(topic, records, **options)


def _nothing(world: World) -> None:
    """The topics of the case do not exist yet."""


# Appends.

for _class in CLASSES:
    CASES[f"append-{_class}"] = Case(_create("t", durability=_class), _append("t", ["new"]))
    CASES[f"append-batch-{_class}"] = Case(
        _create("t", durability=_class), _append("t", ["new", "newer", "newest"], tag="a")
    )
    CASES[f"append-key-{_class}"] = Case(
        _create("t", durability=_class),
        _append("t", ["new", "newer"], idempotency_key="once"),
        repeats=True,
    )
    CASES[f"append-capped-{_class}"] = Case(
        _create("t", durability=_class, cap_records=3), _append("t", ["new", "newer"])
    )

CASES["append-capped-bytes"] = Case(
    _create("t", durability="fsync", cap_bytes=200),
    _append("t", ["x" * 50, "y" * 60, "z" * 70]),
)
CASES["append-reject"] = Case(
    _create("t", durability="fsync", cap_records=6, discard="reject"), _append("t", ["new"])
)
CASES["append-large"] = Case(
    _create("t", durability="disk"), _append("t", ["x" * 20_000, "y" * 20_000])
)
CASES["append-creates"] = Case(
    _nothing, _append("t", ["new"]), between=(lambda world: world.log.create("t"),)
)


def _routed(source: str, dest: str) -> Act:
    def setup(world: World) -> None:
        log = world.log
        log.create("t", durability=source)
        log.create("copies", durability=dest)
        log.create_router("all", "t", "copies")
        log.append("t", [1], tag="a")
        log.append("t", [2, 3], tag="b")
        log.read("copies")

    return setup


for _source, _dest in (("fsync", "fsync"), ("fsync", "disk"), ("disk", "disk"), ("disk", "fsync")):
    CASES[f"append-routed-{_source}-{_dest}"] = Case(
        _routed(_source, _dest), _append("t", ["new", "newer"], tag="a"), ("t", "copies")
    )
CASES["read-routed"] = Case(
    _all(_routed("disk", "disk"), _append("t", ["new", "newer"], tag="a")),
    lambda world: world.log.read("copies"),
    ("t", "copies"),
)


def _filtered(world: World) -> None:
    log = world.log
    for name in ("t", "some", "once"):
        log.create(name, durability="disk")
    log.create_router("tagged", "t", "some", filter="a")
    log.create_router("exact", "t", "once", exactly_once=True)
    log.append("t", [1], tag="a")
    log.append("t", [2], tag="b")


CASES["append-routed-filtered"] = Case(
    _filtered, _append("t", ["new", "newer"], tag="a"), ("t", "some", "once")
)
CASES["append-delayed"] = Case(
    _create("t", type="queue", durability="fsync"), _append("t", ["new"], delay_ms=1000)
)
CASES["append-cron"] = Case(
    _create("t", type="queue", durability="disk"), _append("t", ["new"], cron="0 * * * *")
)


# Batches over several topics.

_WRITES: list[tuple[str, list[Any]]] = [("t", ["new", "newer"]), ("u", ["other"])]


def _two(world: World) -> None:
    _create("t", durability="fsync")(world)
    _create("u", durability="disk")(world)


CASES["append_many"] = Case(_two, lambda world: world.log.append_many(_WRITES), ("t", "u"))
CASES["append_many-again"] = Case(  # the topic of intents exists
    _all(_two, lambda world: world.log.append_many([("t", [4])])),
    lambda world: world.log.append_many(_WRITES),
    ("t", "u"),
)
CASES["append_many-key"] = Case(
    _two,
    lambda world: world.log.append_many(_WRITES, idempotency_key="once"),
    ("t", "u"),
    repeats=True,
)
CASES["append_many-routed"] = Case(
    _all(_routed("disk", "disk"), _create("u", durability="fsync")),
    lambda world: world.log.append_many(_WRITES),
    ("t", "u", "copies"),
)


# Topics.

CASES["create"] = Case(
    _create("u"), lambda world: world.log.create("t", durability="fsync"), ("u", "t"), repeats=True
)
CASES["create-queue"] = Case(
    _create("u"), lambda world: world.log.create("t", type="queue"), ("u", "t"), repeats=True
)
CASES["configure-cap"] = Case(
    _create("t", durability="fsync", count=5),
    lambda world: world.log.create("t", durability="fsync", cap_records=2),
    repeats=True,
)


def _configured(durability: str) -> Act:
    """The topic has its new class, its records are still in memory only: a kill loses them, as
    the class allows that they were appended with."""

    def configure(world: World) -> None:
        catalogue = world.log.core.catalogue
        wanted = catalogue.config("t", {"durability": durability})
        catalogue.configure(catalogue.get("t"), wanted)

    return configure


for _class, _other in (("disk", "fsync"), ("fsync", "disk"), ("ephemeral", "disk")):
    CASES[f"configure-{_class}-{_other}"] = Case(
        _create("t", durability=_class),
        lambda world, other=_other: world.log.create("t", durability=other),  # type: ignore[misc]
        between=(_configured(_other),) if _class == "ephemeral" else (),
        repeats=True,
    )
CASES["configure-routed"] = Case(
    _routed("disk", "disk"),
    lambda world: world.log.create("copies", durability="fsync"),
    ("t", "copies"),
    repeats=True,
)
CASES["drop"] = Case(
    _all(_create("t", durability="fsync"), _create("u")),
    lambda world: world.log.drop("t"),
    ("u", "t"),
)
CASES["drop-source"] = Case(
    _routed("disk", "disk"), lambda world: world.log.drop("t"), ("copies", "t")
)
CASES["drop-dest"] = Case(
    _routed("disk", "disk"), lambda world: world.log.drop("copies"), ("t", "copies")
)


# Deletes.

for _class in ("disk", "fsync"):
    CASES[f"delete-before-{_class}"] = Case(
        _create("t", durability=_class, count=6),
        lambda world: world.log.delete("t", before_seq=4),
    )
    CASES[f"delete-tag-{_class}"] = Case(
        _create("t", durability=_class, count=6), lambda world: world.log.delete("t", tag="a")
    )
    CASES[f"delete-seqs-{_class}"] = Case(
        _create("t", durability=_class, count=6),
        lambda world: world.log.delete("t", seqs=[1, 3, 6]),
    )
CASES["delete-sealed"] = Case(
    _all(
        _create("t", durability="fsync", count=12),
        lambda world: world.log.compact(),
        _append("t", [13]),
    ),
    lambda world: world.log.delete("t", tag="a"),
)


# Queues.


def _queue(**config: Any) -> Act:
    def setup(world: World) -> None:
        world.log.create("t", type="queue", lease_ms=30_000, **config)
        world.log.append("t", ["job 1", "job 2", "job 3", "job 4"])

    return setup


def _leased(**config: Any) -> Act:
    def setup(world: World) -> None:
        _queue(**config)(world)
        world.jobs = world.log.claim("t", "w", 3).jobs

    return setup


_QUEUES: dict[str, dict[str, Any]] = {
    "fsync": {"durability": "fsync", "leases_durable": True},
    "disk": {"durability": "disk"},
    "ephemeral": {"durability": "ephemeral"},
}
for _name, _config in _QUEUES.items():
    CASES[f"claim-{_name}"] = Case(_queue(**_config), lambda world: world.log.claim("t", "w", 2))
    CASES[f"ack-{_name}"] = Case(
        _leased(**_config), lambda world: world.log.ack("t", "w", world.jobs[:2])
    )
    CASES[f"nack-{_name}"] = Case(
        _leased(**_config), lambda world: world.log.nack("t", "w", world.jobs[:2])
    )
    CASES[f"nack-delayed-{_name}"] = Case(
        _leased(**_config), lambda world: world.log.nack("t", "w", world.jobs[:2], delay_ms=5000)
    )
    CASES[f"extend-{_name}"] = Case(
        _leased(**_config),
        lambda world: world.log.extend("t", "w", world.jobs[:2], lease_ms=60_000),
    )


def _grouped(world: World) -> None:
    """A queue with groups: of each tag one job at a time. One job of tag a is out."""
    log = world.log
    log.create("t", type="queue", durability="fsync", queue={"group_by": "tag"})
    log.append("t", ["a 1", "a 2"], tag="a")
    log.append("t", ["b 1", "b 2"], tag="b")
    world.jobs = log.claim("t", "w", 1).jobs


CASES["claim-groups"] = Case(_grouped, lambda world: world.log.claim("t", "w", 3))
CASES["ack-groups"] = Case(_grouped, lambda world: world.log.ack("t", "w", world.jobs))
CASES["nack-groups"] = Case(_grouped, lambda world: world.log.nack("t", "w", world.jobs))


def _worn_out(world: World) -> None:
    """Two jobs that were delivered as often as allowed, and a fresh one."""
    log = world.log
    # The rig lets hours pass: a copy that is repeated must still be recognised by its key.
    log.create("dead", durability="fsync", idempotency_window_ms=86_400_000)
    log.create("t", type="queue", durability="fsync", max_deliveries=1, dead_letter="dead")
    log.append("t", ["bad", "worse"])
    log.nack("t", "w", log.claim("t", "w", 2).jobs)
    log.append("t", ["good"])


def _copied_aside(*seqs: int) -> Act:
    """Jobs move to the dead letters one by one: copied under a key, then deleted together."""

    def act(world: World) -> None:
        queue = world.log.core.catalogue.get("t")
        for seq in seqs:
            data = world.log.read("t", seq - 1, 1).records[0].data
            world.log.append("dead", [data], idempotency_key=f"dead:{queue.id}:{seq}")

    return act


CASES["claim-dead-letters"] = Case(
    _worn_out,
    lambda world: world.log.claim("t", "w", 1),
    ("t", "dead"),
    between=(_copied_aside(1), _copied_aside(1, 2)),
)
CASES["move_position"] = Case(
    _create("t", durability="fsync"),
    lambda world: world.log.move_position("t", "reader", 2),
    repeats=True,
)


# Routers.


def _ends(world: World) -> None:
    _create("t", durability="disk")(world)
    world.log.create("copies", durability="disk")


CASES["create_router"] = Case(
    _ends, lambda world: world.log.create_router("all", "t", "copies"), ("t", "copies")
)
CASES["create_router-creates"] = Case(
    _create("u"),
    lambda world: world.log.create_router("all", "t", "copies"),
    ("u", "t", "copies"),
    between=(
        lambda world: world.log.create("t"),
        lambda world: (world.log.create("t"), world.log.create("copies")),
        lambda world: world.log.create("copies"),
    ),
)
CASES["drop_router"] = Case(
    _routed("disk", "disk"), lambda world: world.log.drop_router("all"), ("t", "copies")
)
