"""`python -m benchmarks` at a tiny size: every part runs, reports its figures, leaves no files.

Nothing here is about how fast anything is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare_parts import PARTS as COMPARED
from benchmarks.features import PARTS as FEATURES
from benchmarks.peers import PEERS
from benchmarks.server import PARTS
from penstock.cli.exit_codes import ExitCode
from tests.support.postgres import needed, passable
from tests.support.rig import on_disk
from tests.support.watched import BENCHMARKS, PENSTOCK, ROOT, Watched


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A directory that is not in memory, which would be warned of."""
    path = on_disk(tmp_path, "bench")
    yield path
    shutil.rmtree(path)


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", BENCHMARKS, *map(str, words)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def report_of(*words: object) -> dict[str, Any]:
    """The JSON that a successful run prints."""
    done = run(*words, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    "part",
    # Each starts servers, peers and loads of its own: one here, the others with the full rigs.
    [pytest.param(part, marks=() if part == "post" else pytest.mark.crash) for part in PARTS],
)
def test_a_part_measures_our_server_and_leaves_nothing(part: str, disk: Path) -> None:
    for seconds in ("0.1", "3"):  # on a busy machine nobody may be answered in the shorter one
        report = report_of("server", "--seconds", seconds, "--only", part, "--dir", disk)
        if all(figure["value"] != 0 for figure in report["figures"]):
            break

    absent = [peer.missing.reason for peer in PEERS if not peer.path]
    for figure in report["figures"]:
        assert figure["value"] is not None or figure["note"] in absent, figure
        assert figure["value"] is None or figure["value"] > 0, figure
    assert any("penstock" in command for command in report["commands"])
    assert not list(disk.iterdir())


@pytest.mark.crash
def test_the_output_for_people_has_the_machine_the_peers_and_the_goals(disk: Path) -> None:
    words = "--seconds", "0.1", "--only", "binary", "--dir", disk, "--no-pin"
    shown = run("server", *words).stdout

    assert "a write with sync takes" in shown
    assert "wherever the kernel puts them" in shown
    for peer in PEERS:
        assert re.search(rf"^{peer.program}: ", shown, re.MULTILINE)
    assert re.search(r"binary against JSON .* times +goal ≥ 2.5 +(ok|below)", shown, re.MULTILINE)


@pytest.mark.parametrize(("command", "part"), [("server", "post"), ("features", "push")])
def test_a_part_that_does_not_exist_is_refused(command: str, part: str, disk: Path) -> None:
    outcome = run(command, "--only", "nothing", "--dir", disk)

    assert outcome.returncode == 2
    assert part in outcome.stderr


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=() if part == "idle" else pytest.mark.crash) for part in FEATURES],
)
def test_features_are_measured_and_nothing_is_left(part: str, disk: Path) -> None:
    report = report_of("features", "--seconds", "0.2", "--only", part, "--dir", disk)

    ours = [figure for figure in report["figures"] if "beava" not in figure["name"]]
    assert ours
    assert all(figure["value"] is not None for figure in ours), ours
    assert not list(disk.iterdir())


@pytest.mark.crash
def test_queues_are_measured_and_nothing_is_left() -> None:
    with passable() as folder:
        report = report_of("queue", "--seconds", "0.05", "--dir", folder)
        left = list(folder.iterdir())

    taken = {figure["name"]: figure["value"] for figure in report["figures"]}
    assert len(taken) >= 4
    assert all(value is None or value > 0 for value in taken.values())
    assert taken["claim + ack in batches of 100, fsync, over HTTP"] is not None
    assert not left
    needed()  # for the last of it
    assert taken["  … over HTTP, against PostgreSQL"] is not None, report["figures"]
    assert taken["  … embedded, against PostgreSQL"] is not None, report["figures"]


@pytest.mark.parametrize(
    "part",
    [pytest.param(name, marks=() if name == "actors" else pytest.mark.crash) for name in COMPARED],
)
def test_two_trees_are_compared_and_nothing_is_left(part: str, disk: Path) -> None:
    """Here with the same tree twice, which needs no build."""
    for seconds in ("0.1", "3"):  # on a busy machine the shorter one may count nothing
        words = "--part", part, "--rounds", "1", "--seconds", seconds, "--dir", disk
        report = report_of("compare", "--base", ROOT, "--head", ROOT, *words)
        (found,) = report["comparisons"]
        if not found["failure"]:
            break

    assert found["failure"] == ""
    assert found["base"] > 0
    assert found["ratio"] == pytest.approx(found["head"] / found["base"])
    assert report["base"]["folder"] == report["head"]["folder"] == str(ROOT)
    assert not list(disk.iterdir())


# Scratch files.


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (BENCHMARKS, ("log", "--scale", "0.001", "--only", "append")),
        pytest.param(
            BENCHMARKS,
            ("server", "--seconds", "0.1", "--only", "binary"),
            marks=pytest.mark.crash,
        ),
        (BENCHMARKS, ("router", "--seconds", "0.05")),
        pytest.param(BENCHMARKS, ("sender", "--seconds", "0.05"), marks=pytest.mark.crash),
        (PENSTOCK, ("bench", "log")),
    ],
    ids=lambda words: words if isinstance(words, str) else words[0],
)
def test_the_current_directory_stays_empty(
    module: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    with Watched(tmp_path, *words, module=module) as command:
        code = command.ends()

        assert code == 0, command.process.communicate()[1]
        assert command.strayed == set()
        assert any(name.startswith("penstock-bench-") for name in command.seen)
        assert command.left() == []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_the_servers_and_removes_their_files(
    number: signal.Signals, code: int, tmp_path: Path
) -> None:
    words = ("server", "--seconds", "60", "--only", "binary")
    with Watched(tmp_path, *words, module=BENCHMARKS) as command:
        while not list(command.temporary.glob("penstock-bench-*/*/data/*")):
            assert command.runs_on(), command.process.communicate()[1]
        assert len(command.pids()) > 1

        if number == signal.SIGINT:
            os.killpg(command.process.pid, number)  # as a terminal does
        else:
            command.process.send_signal(number)

        assert command.ends() == code
        assert "Traceback" not in command.process.communicate()[1]
        assert command.pids() == []
        assert command.strayed == set()
        assert command.left() == []
