"""R7: every call to the disk fails once, in every way. Nothing acknowledged is lost by it, and
nothing is acknowledged after it."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from penstock.engine.engine import Log
from penstock.errors import LogFailed, PenstockError, StorageError
from penstock.testing.crash import CrashChoices
from penstock.testing.fs import MemoryFilesystem
from tests.support import rig, states
from tests.support.model import Model
from tests.support.states import STEPS, Step, appending, configuring, deleting

WORKLOAD: tuple[Step, ...] = (
    configuring("make f", "f", durability="fsync"),
    configuring("make d", "d", durability="disk"),
    appending("f", "f", 2, tag="a"),
    appending("d", "d", 2, tag="a"),
    appending("f batch", "f", 3, pad=500, tag="b"),
    appending("keyed", "f", 1, key="k"),
    STEPS[10],  # checkpoint
    appending("d batch", "d", 3, pad=500),
    deleting("delete tag", "f", tag="a"),
    configuring("cap", "f", durability="fsync", cap_records=3),
    STEPS[11],  # compact
    appending("f again", "f", 3, pad=500),
    appending("d again", "d", 1),
    states.dropping("drop", "d"),
    appending("f at last", "f", 1),
    states.keeping("upkeep", lambda log: log.upkeep(), syncs=False),
    states.keeping("close", lambda log: log.close(), syncs=True),
)
KINDS = ("write", "sync", "rename", "create", "sync_dir", "truncate", "allocate", "mkdir", "unlink")


@dataclass(frozen=True, slots=True)
class Failure:
    """How a call fails."""

    name: str
    error: int
    short: int | None = None


FAILURES = (
    Failure("EIO", errno.EIO),
    Failure("ENOSPC", errno.ENOSPC),
    Failure("EDQUOT", errno.EDQUOT),
)
OF_WRITES = (
    Failure("EINTR", errno.EINTR),
    Failure("short by much", errno.ENOSPC, short=1),
    Failure("short", errno.ENOSPC, short=70),
)


def how_many(kind: str) -> int:
    """How many calls of this kind the workload makes when all goes well."""
    fs, model = MemoryFilesystem(), Model()
    for _ in run(fs, model):
        pass
    return fs.counts[kind]


def run(fs: MemoryFilesystem, model: Model) -> Iterator[tuple[Log, Step, list[Model]]]:
    """Before each step: the log, the step, and the models before, during and after it."""
    log = states.open_log(fs)
    for step in WORKLOAD:
        models = [model, *step.foresee(model)]
        yield log, step, models
        step.act(log)
        model = models[-1]


class Trial:
    """One workload with one failing call."""

    def __init__(self, kind: str, nth: int, failure: Failure) -> None:
        self.fs = MemoryFilesystem()
        self.fault = self.fs.fail(kind, nth=nth, error=failure.error, short=failure.short)
        self.log: Log | None = None
        self.step = "open"
        self.models = [Model()]
        self.wrong: list[str] = []

    def go(self) -> list[str]:
        """What was wrong. The workload runs until the fault strikes."""
        error = self._until_it_fails()
        if not self.fault.fired:
            return ["the fault never fired"]
        if error is None:
            return [f"{self.step}: the fault was passed over in silence"]
        if not isinstance(error, StorageError):
            self.wrong.append(f"{self.step} raised {error!r}")
        if self.log is not None and self.step != "close":
            self._is_closed_for_writing(self.log)
            self._still_reads(self.log)
        if self.fs.synced_after_failure:
            self.wrong.append("synced a file again after a sync of it had failed")
        cuts = [self.fs.power_cut(CrashChoices(seed)) for seed in range(2)]
        self._comes_back(self.fs.kill(), "after a kill")
        for cut in cuts:
            self._comes_back(cut, "after a power cut")
        return self.wrong

    def _until_it_fails(self) -> Exception | None:
        try:
            for log, step, models in run(self.fs, Model()):
                if self.fault.fired:
                    return None
                self.log, self.models = log, models
                self.step = step.name
        except (PenstockError, OSError) as error:
            return error
        return None

    def _is_closed_for_writing(self, log: Log) -> None:
        if log.failed is None:
            self.wrong.append(f"{self.step}: the log did not notice")
        for topic in ("f", "d"):
            try:
                log.append(topic, ["too late"], create=False)
            except LogFailed:
                continue
            except PenstockError as error:
                if topic in self.models[0].topics and topic in self.models[-1].topics:
                    self.wrong.append(f"{self.step}: a later append raised {error!r}")
            else:
                self.wrong.append(f"{self.step}: a later append to {topic} was acknowledged")

    def _still_reads(self, log: Log) -> None:
        try:
            seen = states.see(log)
        except (PenstockError, OSError, AssertionError) as error:
            self.wrong.append(f"{self.step}: reading raised {error!r}")
            return
        _, wrong = states.outcome(self.models, seen, "close")
        self.wrong += [f"{self.step}, still open: {text}" for text in wrong]

    def _comes_back(self, fs: MemoryFilesystem, when: str) -> None:
        try:
            log = states.open_log(fs)
            seen = states.see(log)
            answer = log.append("f", ["works again"])
        except (PenstockError, OSError, AssertionError) as error:
            self.wrong.append(f"{self.step}, {when}: {error!r}")
            return
        models = self.models
        if when == "after a kill" and self.fault.kind != "sync":
            models = [model.copy() for model in models]
            for model in models:
                model.sync_all()  # only a power cut or a failed sync takes what was written
        _, wrong = states.outcome(models, seen, "cut")
        if log.damage:
            wrong.append(f"damage: {log.damage}")
        head = seen["f"].head if "f" in seen else 0
        if answer.first_seq != head + 1:
            wrong.append(f"seq {answer.first_seq} follows {head}")
        self.wrong += [f"{self.step}, {when}: {text}" for text in wrong]


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_failing_call_closes_the_log_and_loses_nothing(
    kind: str, report: rig.Report
) -> None:
    failures = FAILURES + OF_WRITES if kind == "write" else FAILURES
    wrong: dict[str, str] = {}
    trials = 0
    for nth in range(1, how_many(kind) + 1):
        for failure in failures:
            trials += 1
            for text in Trial(kind, nth, failure).go():
                wrong.setdefault(text, f"{kind} {nth}: {failure.name}")

    report(f"R7 {kind}: {trials} failing calls, {len(wrong)} violations")
    told = [f"{story}: {text}" for text, story in wrong.items()]
    assert not told, "\n".join([f"{len(told)} violations", *told[:20]])


def test_all_calls_of_the_workload_are_tried() -> None:
    fs = MemoryFilesystem()
    for _ in run(fs, Model()):
        pass

    changing = Counter(fs.counts)
    for kind in ("open", "read", *KINDS):
        changing.pop(kind, None)
    assert not changing


def _fill(log: Log, acknowledged: list[str]) -> None:
    """Append until that fails; note what did not."""
    for number in range(1_000):
        log.append("f", [f"record {number}"])
        acknowledged.append(f"record {number}")
        if number % 10 == 9:
            log.checkpoint()


@pytest.mark.parametrize("spare", range(300, 9_000, 350))
def test_a_full_disk_stops_writing_and_a_bigger_one_goes_on(spare: int) -> None:
    fs = MemoryFilesystem()
    log = states.open_log(fs)
    log.create("f", durability="fsync")
    log.append("f", ["first"])
    acknowledged = ["first"]
    fs.capacity_bytes = sum(fs.size(path) for path in fs.paths()) + spare

    with pytest.raises(StorageError):
        _fill(log, acknowledged)

    with pytest.raises(LogFailed):
        log.append("f", ["no room"])
    read = [record.data for record in log.read("f", limit=2_000).records]
    assert read == acknowledged
    assert fs.synced_after_failure == 0
    for survivor in (fs.kill(), fs.power_cut(CrashChoices(spare))):
        survivor.capacity_bytes = None
        with states.open_log(survivor) as again:
            read = [record.data for record in again.read("f", limit=2_000).records]
            # The one that failed may be there: its fate was unknown, not refused.
            assert read[: len(acknowledged)] == acknowledged
            assert len(read) <= len(acknowledged) + 1
            assert again.damage == []
            assert again.append("f", ["room again"]).last_seq == len(read) + 1
