"""Random work with routers, crashed at any change to its disk, and recovered.

The work on a plan is drawn from a seed. `Rig` does it step by step, takes the disk before each
change, and after each step lets every crash of those happen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any
from unittest import mock

from penstock.engine import fsck
from penstock.engine.engine import Log
from penstock.errors import PenstockError
from penstock.storage import snapshots
from penstock.storage.wal import files
from penstock.testing.crash import CrashChoices
from penstock.testing.fs import MemoryFilesystem
from penstock.types import Record
from tests.support import states
from tests.support.router_plans import Plan
from tests.support.routes import STRENGTHS, Eye, Picture, Restart, Story

META = f"{states.DATA_DIR}/meta"
TAGS = ("x1", "x2", "y", None)
WIDTHS = (8, 30, 300, 700)


@dataclass(frozen=True, slots=True)
class Point:
    """The disk before one change to it, and what could be seen then."""

    disk: MemoryFilesystem
    picture: Picture
    where: str


@dataclass(frozen=True, slots=True)
class Going:
    """What a step takes away: it may be there or not."""

    topics: set[int]
    routers: set[str]


@dataclass(slots=True)
class Outcome:
    """What came of opening one disk."""

    found: Picture | None = None
    after: Picture | None = None
    stopped: frozenset[str] = frozenset()
    wrong: list[str] = field(default_factory=list)


class World:
    """A log at work, and the story of it."""

    def __init__(self, plan: Plan, random: Random) -> None:
        self.plan = plan
        self.random = random
        self.fs = MemoryFilesystem()
        self.story = Story()
        self.numbers = 0
        self.points: list[Point] = []
        self.configs = {name: dict(config) for name, config in plan.topics.items()}
        self._open()
        for topic in plan.topics:
            self.make_topic(topic)
        for router in plan.routers:
            self.put(*router)

    def _open(self) -> None:
        self.log = states.open_log(self.fs, bounds=self.plan.bounds)
        self.eye = Eye(self.log)
        self.picture = self.eye.look()

    def reopen(self, how: str) -> None:
        """After a close, a kill, or a power cut that takes what it likes."""
        if how == "close":
            self.log.close()
            self.picture = self.eye.look()
        elif how == "kill":
            self.fs = self.fs.kill()
        else:
            self.fs = self.fs.power_cut(CrashChoices(self.random.getrandbits(32)))
        self.fs.on_operation = self._note
        self._open()
        self.story.restart(self.picture, "cut" if how == "cut" else "kill")

    # Watching.

    def watch(self, act: Callable[[], object]) -> list[Point]:
        """Do something, and give the disk before each change that it made."""
        self.points = []
        self.picture = self.eye.look()
        self.fs.on_operation = self._note
        try:
            act()
        finally:
            self.fs.on_operation = None
        self.picture = self.eye.look()
        self.points.append(Point(self.fs.copy(), self.picture, "at the end"))
        return self.points

    def _note(self, index: int, kind: str, path: str) -> None:
        if not self.log.core.parts.handles or self.log.core.catalogue.is_closed:
            picture = self.picture
        else:
            picture = self.picture = self.eye.look()
        self.points.append(Point(self.fs.copy(), picture, f"before {index}, {kind} {path}"))

    # Doing.

    def make_topic(self, topic: str) -> None:
        registry = self.log.core.parts.registry
        wanted = list(self.plan.topics).index(topic) % self.plan.shards
        while files.shard_number(registry.next_id, self.plan.shards) != wanted:
            registry.next_id += 1
        self.log.create(topic, **self.configs[topic])

    def change_class(self, topic: str, durability: str) -> None:
        before = self.eye.look()
        self.configs[topic]["durability"] = durability
        self.log.create(topic, **self.configs[topic])
        self.story.reclass(before, self.eye.look())

    def put(self, name: str, source: str, dest: str, rules: dict[str, Any]) -> None:
        before = self.eye.look()
        self.log.create_router(name, source, dest, **rules)
        self.story.bear(before, self.eye.look(), name)

    def append(self, topic: str) -> None:
        records = self._records(topic)
        try:
            self.log.append(topic, records)
        except PenstockError:  # full
            return

    def append_many(self, topics: list[str]) -> None:
        """Everything or nothing, and past a sync on return."""
        writes = [(topic, self._records(topic)) for topic in topics]
        ids = {one.name: one.id for one in self.eye.look().topics.values()}
        batch = {ids[topic]: {str(one.data["id"]) for one in some} for topic, some in writes}
        self.story.batches.append(batch)
        try:
            self.log.append_many(writes)
        except PenstockError:  # one is full
            return
        after = self.eye.look()
        for topic_id, some in batch.items():
            sight = after.topics[topic_id]
            if sight.is_kept:
                self.story.hard[topic_id] |= {
                    seq for seq, record in sight.records.items() if record.data["id"] in some
                }

    def _records(self, topic: str) -> list[Record]:
        records = []
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self.numbers += 1
            number = self.numbers
            self.story.sent[f"{topic}-{number}"] = topic
            data = {"id": f"{topic}-{number}", "pad": "." * self.random.choice(WIDTHS)}
            meta = {"n": number} if number % 3 == 0 else None
            node = f"n{number % 2}" if number % 4 else None
            records.append(Record(data, self.random.choice(TAGS), node, meta))
        return records

    def delete(self, topic: str, tag: str) -> None:
        self.log.read(topic, limit=1)  # what comes with the delete would go with it, unseen
        before = self.eye.look().topics
        self.log.delete(topic, tag=tag)
        after = self.eye.look().topics
        for topic_id, sight in before.items():
            left = after[topic_id]
            if left.name != topic:
                continue
            self.story.deleted[topic_id] |= {
                str(record.data["id"])
                for seq, record in sight.records.items()
                if seq not in left.records and not left.why_gone(seq)
            }

    def drop_router(self, name: str) -> None:
        self.log.drop_router(name)

    def drop_topic(self, name: str) -> None:
        self.log.drop(name)

    def settle_all(self) -> None:
        bring_everything(self.log)


def bring_everything(log: Log) -> None:
    log.core.routing.run()
    for name in log.core.catalogue.names():
        log.read(name, limit=1)


# What is done.


Doing = tuple[str, Callable[[], object]]


def steps(world: World) -> Iterator[Doing]:
    """For ever: what to do next, drawn from the seed."""
    plan, random = world.plan, world.random
    chances = {
        "append": 12,
        "direct": 2,
        "many": 2,
        "run": 5,
        "read": 6,
        "delete": 2,
        "sync": 1,
        "checkpoint": 2,
        "meanwhile": 2,
        "race": 1,
        "compact": 1,
        "upkeep": 1,
        "close": 1,
        "kill": 1,
        "cut": 1,
        "rules": 0 if plan.is_steady else 1,
        "router": 0 if plan.is_steady else 1,
        "topic": 0 if plan.is_steady else 1,
        "class": 1,
    } | plan.weights
    fed = {dest for _, _, dest, _ in plan.routers}
    roots = [topic for topic in plan.topics if topic not in fed] or list(plan.topics)
    while True:
        (kind,) = random.choices(list(chances), list(chances.values()))
        name, source, dest, rules = random.choice(plan.routers)
        root = random.choice(roots)
        if kind == "append":
            yield "append", partial(world.append, root)
        elif kind == "direct":
            yield "direct", partial(world.append, dest)
        elif kind == "many":
            some = random.sample(list(plan.topics), random.randrange(1, len(plan.topics) + 1))
            # What a batch brings to a RAM-only topic may come again: see the stories.
            some = [one for one in some if world.configs[one]["durability"] != "ephemeral"]
            if not some:
                continue
            yield f"append to {some}", partial(world.append_many, some)
        elif kind == "class":
            topic, durability = random.choice(list(plan.topics)), random.choice(STRENGTHS)
            yield f"{topic} becomes {durability}", partial(world.change_class, topic, durability)
        elif kind == "run":
            yield "run", world.settle_all
        elif kind == "read":
            yield f"read {dest}", partial(world.log.read, dest)
        elif kind == "delete":
            topic, tag = random.choice((source, source, dest)), random.choice(("x1", "y"))
            yield f"delete {tag} of {topic}", partial(world.delete, topic, tag)
        elif kind in ("sync", "checkpoint", "compact", "upkeep"):
            yield kind, getattr(world.log, kind)
        elif kind == "meanwhile":
            yield "meanwhile", partial(_meanwhile, world, root)
        elif kind == "race":
            yield "race", partial(_race, world, name, source)
        elif kind in ("close", "kill", "cut"):
            yield kind, partial(world.reopen, kind)
        elif kind == "rules":
            other = rules | random.choice(({}, {"preserve_tag": False}, {"exactly_once": True}))
            yield "settle", world.settle_all
            yield "rules", partial(world.put, name, source, dest, other)
        elif kind == "router":
            yield "drop router", partial(world.drop_router, name)
            yield "between", partial(world.append, source)
            yield "router", partial(world.put, name, source, dest, rules)
        else:
            yield from _remade(world, random.choice((source, dest)))


def _remade(world: World, topic: str) -> Iterator[Doing]:
    """Drop a topic, and make it and its routers again."""
    yield f"drop {topic}", partial(world.drop_topic, topic)
    yield f"make {topic}", partial(world.make_topic, topic)
    for router in world.plan.routers:
        if topic in router[1:3]:
            yield f"router {router[0]}", partial(world.put, *router)


def _meanwhile(world: World, topic: str) -> None:
    """A checkpoint, and while it is sealing, records come and are sent on."""
    note, is_done = world.fs.on_operation, False

    def between(index: int, kind: str, path: str) -> None:
        nonlocal is_done
        if note is not None:
            note(index, kind, path)
        if kind == "create" and path.endswith(".data.tmp") and not is_done:
            is_done = True
            world.append(topic)
            world.settle_all()

    world.fs.on_operation = between
    world.log.checkpoint(everything=True)


def _race(world: World, name: str, topic: str) -> None:
    """A checkpoint that takes its positions when a step has been admitted and is not queued yet,
    and is over before the step is written."""
    log = world.log
    route = log.core.routing._routes.get(name)
    if route is None or route.dest.topic.config.durability == "ephemeral":
        return  # it would be given its copies twice: see the stories
    world.append(topic)
    log.sync()
    shard, references = route.dest.shard, log.core.parts.references
    submit, bound, has_positions = shard.submit, references.bound, threading.Event()
    checkpoint = threading.Thread(target=log.checkpoint)

    def bounded(take: Any) -> Any:
        try:
            return bound(take)
        finally:
            has_positions.set()

    def submitted(commit: Any, steps: Any = ()) -> None:
        if checkpoint.ident is None:
            checkpoint.start()
            has_positions.wait()
        submit(commit, steps)

    with (
        mock.patch.object(shard, "submit", submitted),
        mock.patch.object(references, "bound", bounded),
    ):
        with route.lock:
            log.core.routing.forward.step(route, {})
        if checkpoint.ident is not None:
            checkpoint.join()
    route.dest.push()


# What comes of it.


class Rig:
    """Does the work of a plan and judges its crashes. Keeps the count."""

    def __init__(
        self,
        plan: Plan,
        random: Random,
        *,
        points_max: int,
        states_max: int,
        nested_nth: int,
        spare_nth: int = 2,
        again_nth: int = 6,
    ) -> None:
        self.plan = plan
        self.random = random
        self.points = self.crashes = self.nested = self.spares = self.opened = 0
        self.derived = self.logged = 0
        self.violations: dict[str, str] = {}  # what -> one way to get there
        self._points_max = points_max
        self._states_max = states_max
        self._nested_nth = nested_nth
        self._spare_nth = spare_nth
        self._again_nth = again_nth
        self._is_warm = True
        self._known: dict[tuple[str, str], Outcome] = {}

    def run(self, count: int, warm: int = 0) -> Rig:
        """So many steps, the first of them left alone. Stops at the first step whose crashes
        show something wrong."""
        world = World(self.plan, self.random)
        told: list[str] = []
        work = steps(world)
        for number in range(count + warm):
            self._is_warm = number >= warm
            name, act = next(work)
            told.append(name)
            self._step(world, name, act, ", ".join(told[-12:]))
            if self.violations:
                break
        routing = world.log.core.routing
        self.derived += routing.forward.derived_total
        self.logged += routing.forward.logged_total
        return self

    def _step(self, world: World, name: str, act: Callable[[], object], told: str) -> None:
        start, story = world.eye.look(), world.story.copy()
        forward = world.log.core.routing.forward
        counts = forward.derived_total, forward.logged_total
        points = world.watch(act)
        if world.log.core.routing.forward is not forward:  # opened anew
            self.derived += counts[0]
            self.logged += counts[1]
        end = points[-1].picture
        may_go = set(start.topics) - set(end.topics)
        # What this step makes or takes may be there or not; what it shows was not seen before.
        later = world.story.copy()
        story.births, story.fed = later.births, later.fed
        story.sent, story.deleted = world.story.sent, world.story.deleted
        if len(later.batches) > len(story.batches):
            story.pending = later.batches[-1]
        story.batches, story.frail = world.story.batches, later.frail
        story.weaker = _weaker(start, end)
        is_cut = name == "cut"
        story.was_cut |= is_cut
        may_end = set(start.routers) - set(end.routers) if name == "drop router" else set()
        going = Going(may_go, may_end)
        chosen = self._chosen(points)
        for point in points:
            story.learn(point.picture)
            if self._is_warm and point in chosen:
                self._crash(point, story, going, f"{told}; {point.where}", was_cut=is_cut)
        if name in ("close", "kill", "cut"):
            return  # the story was told by then
        world.story.learn(end)
        for point in points:
            world.story.learn(point.picture)
        if name in ("sync", "checkpoint", "compact"):
            world.story.sync_all(start)
        for router in set(start.routers) - set(end.routers):
            world.story.births.pop(router, None)

    def _chosen(self, points: list[Point]) -> list[Point]:
        """Some of them, and the last always."""
        self.points += len(points)
        if len(points) <= self._points_max:
            return points
        return [*self.random.sample(points[:-1], self._points_max - 1), points[-1]]

    def _crash(self, point: Point, story: Story, going: Going, told: str, *, was_cut: bool) -> None:
        """Every crash at this point: the process killed, or the power cut in many ways."""
        first: Restart = "cut" if was_cut else "kill"
        crashes: list[tuple[MemoryFilesystem, Restart]] = [(point.disk.copy().kill(), first)]
        crashes += [(state, "cut") for state in self._cuts(point.disk)]
        for state, how in crashes:
            self.crashes += 1
            where = f"{told}: {how} {states.fates(state) if how == 'cut' else ''}"
            spare = self._without_newest(state)
            points: list[MemoryFilesystem] | None = None
            if self.random.randrange(self._nested_nth) == 0:
                points = []
            outcome = self._outcome(state, points)
            self._judge(outcome, point, story, how, going, where)
            if spare is not None:
                self.spares += 1
                told_so = f"{where}, spare snapshot"
                self._judge(self._outcome(spare), point, story, how, going, told_so, is_spare=True)
            self._crash_again(points or [], point, story, how, going, where)

    def _cuts(self, disk: MemoryFilesystem) -> list[MemoryFilesystem]:
        """The two most telling, and some of the next."""
        cuts = list(disk.crash_states(self._states_max * 3))
        if len(cuts) <= self._states_max:
            return cuts
        return [*cuts[:2], *self.random.sample(cuts[2:], self._states_max - 2)]

    def _crash_again(
        self,
        points: list[MemoryFilesystem],
        point: Point,
        story: Story,
        how: Restart,
        going: Going,
        told: str,
    ) -> None:
        """A crash during the recovery from a crash: one level is enough."""
        for at, disk in enumerate(points):
            again: list[tuple[MemoryFilesystem, Restart]] = [(disk.copy().kill(), how)]
            again += [(state, "cut") for state in disk.crash_states(3)]
            for state, how_again in again:
                self.nested += 1
                where = f"{told}, again in recovery at {at}: {how_again}"
                self._judge(self._outcome(state), point, story, how_again, going, where)

    def _judge(
        self,
        outcome: Outcome,
        point: Point,
        story: Story,
        how: Restart,
        going: Going,
        told: str,
        *,
        is_spare: bool = False,
    ) -> None:
        wrong = list(outcome.wrong)
        if outcome.found is not None and outcome.after is not None:
            wrong += story.objections(
                point.picture,
                outcome.after,
                how,
                stopped=outcome.stopped,
                may_go=going.topics,
                may_end=going.routers,
                is_spare=is_spare,
            )
            if not (is_spare and story.was_cut):  # what was counted may be frail
                wrong += story.totals(outcome.found, outcome.after)
        for one in wrong:
            self.violations.setdefault(one, told)

    # Opening.

    def _outcome(
        self, state: MemoryFilesystem, points: list[MemoryFilesystem] | None = None
    ) -> Outcome:
        """`points` are given the disk before each change that the opening makes to it. A disk
        that was opened before is not opened again."""
        key = (state.fingerprint(), state.boot_id())
        known = self._known.get(key)
        if known is not None:
            return known
        outcome = self._known[key] = Outcome()
        self.opened += 1
        if points is not None:
            state.on_operation = lambda index, kind, path: points.append(state.copy())
        try:
            self._open(state, outcome)
        except (PenstockError, OSError, AssertionError) as error:
            outcome.wrong.append(f"{type(error).__name__}: {error}")
        finally:
            state.on_operation = None
        return outcome

    def _open(self, state: MemoryFilesystem, outcome: Outcome) -> None:
        log = states.open_log(state, bounds=self.plan.bounds)
        eye = Eye(log)
        outcome.found = eye.look()
        outcome.wrong += [f"damage: {one}" for one in log.damage if "older copy" not in str(one)]
        twin = state.copy() if self.random.randrange(self._again_nth) == 0 else None
        bring_everything(log)
        state.on_operation = None
        outcome.after = eye.look()
        log.core.routing.run()
        if eye.look() != outcome.after:
            outcome.wrong.append(f"does not come to rest: {_difference(outcome.after, eye.look())}")
        outcome.stopped = frozenset(one.name for one in log.routers() if one.stopped)
        left = state.kill()
        again = Eye(states.open_log(left, bounds=self.plan.bounds)).look()
        if again.lasting() != outcome.after.lasting():
            outcome.wrong.append(f"a kill later: {_difference(outcome.after, again)}")
        if twin is not None:
            self._open_twice(twin, outcome.found, outcome)

    def _open_twice(self, state: MemoryFilesystem, found: Picture, outcome: Outcome) -> None:
        """Nothing was sent on: a second opening and a third, and the check, find the same."""
        state = state.kill()
        report = fsck.check(state.copy(), states.DATA_DIR)
        # A mark that was cut short is no damage, and a snapshot may have been damaged by us.
        outcome.wrong += [f"fsck: {one}" for one in report.problems if one.kind != "derived"]
        for number in ("second", "third"):
            log = states.open_log(state, bounds=self.plan.bounds)
            again = Eye(log).look()
            log.close()
            if again.lasting() != found.lasting():
                outcome.wrong.append(f"a {number} opening: {_difference(found, again)}")

    def _without_newest(self, state: MemoryFilesystem) -> MemoryFilesystem | None:
        """The same disk with its newest snapshot damaged or gone, if it has a spare."""
        numbers = snapshots.numbers(state, META)
        if len(numbers) < 2 or self.random.randrange(self._spare_nth):
            return None
        state = state.copy()
        path = snapshots.path_of(META, max(numbers))
        if self.random.getrandbits(1):
            state.corrupt(path, state.size(path) // 2)
        else:
            state.unlink(path)
            state.sync_dir(META)
        return state


def _weaker(start: Picture, end: Picture) -> dict[int, str]:
    """The weaker of their two classes, for topics whose class was changed."""
    return {
        topic_id: min(sight.durability, end.topics[topic_id].durability, key=STRENGTHS.index)
        for topic_id, sight in start.topics.items()
        if topic_id in end.topics and sight.durability != end.topics[topic_id].durability
    }


def _difference(one: Picture, other: Picture) -> str:
    (kept, routers), (kept_then, routers_then) = one.lasting(), other.lasting()
    for topic_id in kept.keys() | kept_then.keys():
        if kept.get(topic_id) != kept_then.get(topic_id):
            return f"{_brief(kept.get(topic_id))} became {_brief(kept_then.get(topic_id))}"
    return f"{routers} became {routers_then}"


def _brief(sight: Any) -> str:
    if sight is None:
        return "nothing"
    return f"{sight.name} {sight.head} {sorted(sight.records)} {sight.gaps}"
