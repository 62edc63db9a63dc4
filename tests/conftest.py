"""What every test run shares: which long or privileged tests take part, and hypothesis settings.

`PENSTOCK_RIG=full` runs the long variants; without it they are left out of the run. `brief` draws
fewer examples than a normal run, and takes a sample of the cases of a test that has very many.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import requirements, seeds

# No deadline: a shared machine may pause any example, and no test of ours is about time. The short
# size draws the same examples in every run; the full size draws new ones.
settings.register_profile(
    "short", deadline=None, print_blob=True, max_examples=20, derandomize=True
)
settings.register_profile("full", deadline=None, print_blob=True, max_examples=2_000)
# For further interpreters, on which only what differs between interpreters is looked for.
settings.register_profile("brief", deadline=None, print_blob=True, max_examples=5, derandomize=True)
settings.load_profile(os.environ.get("PENSTOCK_RIG") or "short")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long variants out unless they were asked for, and deal the rest."""
    if not seeds.IS_FULL:
        long = [item for item in items if item.get_closest_marker("crash")]
        if long:
            config.hook.pytest_deselected(items=long)
            items[:] = [item for item in items if not item.get_closest_marker("crash")]
    if seeds.IS_BRIEF:
        kept = sampled(items)
        config.hook.pytest_deselected(items=sorted(set(items) - set(kept), key=str))
        items[:] = kept
    items[:] = dealt(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Thousands of collected tests stay to the end: the garbage collector need not look at them
    again and again. It is a tenth of the processor's time."""
    gc.collect()
    gc.freeze()


def sampled(items: list[pytest.Item]) -> list[pytest.Item]:
    """All tests; of one with very many cases (each bit of a frame, each cut) a few, evenly."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen = {
        item
        for found in cases.values()
        for item in found[:: max(1, len(found) // CASES_OF_A_SAMPLE)]
    }
    return [item for item in items if item in chosen]


CASES_OF_A_SAMPLE = 4

# Folders whose tests take long, heaviest first, and how many seconds the tests of one take on two
# cores, by and large. What is in no row takes no time.
HEAVY = {
    "server": 320,
    "crash": 320,
    "faults": 300,
    "spark": 260,
    "integration": 60,
    "benchmarks": 30,
}


def dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests in an order that keeps all processes busy to the end. Each begins with an equal
    stretch of the list and takes from the end of another's when its own is done: so the long ones
    come first in each stretch, about as much in one as in another, and the short ones last."""
    if workers < 2 or len(items) < 1000:
        return items
    folders: dict[str, list[pytest.Item]] = {}
    for item in items:
        folders.setdefault(Path(item.nodeid).parts[1], []).append(item)
    hands: list[list[pytest.Item]] = [[] for _ in range(workers)]
    weights = [0.0] * workers
    for folder in ("crash", "faults", "spark", "integration", "benchmarks"):
        at = weights.index(min(weights))
        hands[at] += folders.pop(folder, [])
        weights[at] += HEAVY[folder]
    many = folders.pop("server", [])
    files = list(dict.fromkeys(item.nodeid.partition("::")[0] for item in many))
    files.sort(key=lambda file: "schemathesis" not in file)  # the longest test of all
    for file in files:
        mine = [item for item in many if item.nodeid.partition("::")[0] == file]
        at = weights.index(min(weights))
        hands[at] += mine
        weights[at] += HEAVY["server"] * len(mine) / len(many)
    short = [item for folder in folders.values() for item in folder]
    for at, hand in enumerate(hands):
        room = (len(items) * (at + 1)) // workers - (len(items) * at) // workers - len(hand)
        hand += short[:room] if room > 0 else []
        del short[: max(room, 0)]
    return [item for hand in hands for item in hand] + short


def pytest_runtest_setup(item: pytest.Item) -> None:
    seeds.TAKEN.clear()
    if item.get_closest_marker("root") is not None:
        requirements.root_and_loop_devices()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the command that repeats it with its seed."""
    report = yield
    if report.failed and (command := seeds.repeat_command(item.nodeid)):
        report.sections.append(("repeat with", command))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line on everything that was left out for want of root, a program or Java."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [one.longrepr[2] for one in skipped if isinstance(one.longrepr, tuple)]
    if line := requirements.summary(reasons):
        terminalreporter.section("left out")
        terminalreporter.write_line(line)
