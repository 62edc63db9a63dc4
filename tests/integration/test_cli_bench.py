"""`penstock bench` at a tiny size: every part runs, says what it measured, leaves nothing.

`Watched` is also for the other tests of scratch files.

Nothing here is about how fast anything is.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

from penstock.cli.benchmarks.peers import PEERS
from penstock.cli.benchmarks.server import PARTS
from penstock.cli.exits import ExitCode
from tests.integration.test_cli_main import Cli
from tests.support.postgres import needed, passable
from tests.support.rig import on_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A directory that is not in memory, which would be warned of."""
    path = on_disk(tmp_path, "bench")
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize(
    "part",
    # Each starts servers, peers and loads of its own: one here, the others with the full rigs.
    [pytest.param(part, marks=() if part == "post" else pytest.mark.crash) for part in PARTS],
)
def test_a_part_measures_our_server_and_leaves_nothing(part: str, disk: Path) -> None:
    for seconds in ("0.1", "3"):  # on a busy machine nobody may be answered in the shorter one
        told = ("--seconds", seconds, "--only", part, "--dir", disk, "--json")
        report = Cli(disk / "data").ok("bench", "server", *told).json
        if all(figure["value"] != 0 for figure in report["figures"]):
            break

    absent = [peer.missing.reason for peer in PEERS if not peer.path]
    for figure in report["figures"]:
        assert figure["value"] is not None or figure["note"] in absent, figure
        assert figure["value"] is None or figure["value"] > 0, figure
    assert any("penstock" in command for command in report["commands"])
    assert not list(disk.iterdir())


def test_the_output_for_people_has_the_machine_the_peers_and_the_goals(disk: Path) -> None:
    shown = (
        Cli(disk / "data")
        .ok("bench", "server", "--seconds", "0.1", "--only", "binary", "--dir", disk, "--no-pin")
        .out
    )

    assert "a write with sync takes" in shown
    assert "wherever the kernel puts them" in shown
    for peer in PEERS:
        assert re.search(rf"^{peer.program}: ", shown, re.MULTILINE)
    assert re.search(r"binary against JSON .* times +goal ≥ 2.5 +(ok|below)", shown, re.MULTILINE)


def test_a_part_that_does_not_exist_is_refused(disk: Path) -> None:
    outcome = Cli(disk / "data").run("bench", "server", "--only", "nothing", "--dir", disk)

    assert outcome.code == 2
    assert "post" in outcome.err


@pytest.mark.crash
def test_queues_are_measured_and_nothing_is_left() -> None:
    with passable() as folder:
        words = "bench", "queue", "--seconds", "0.05", "--dir", folder, "--json"
        report = Cli(folder / "data").ok(*words).json
        left = list(folder.iterdir())

    taken = {figure["name"]: figure["value"] for figure in report["figures"]}
    assert len(taken) >= 4
    assert all(value is None or value > 0 for value in taken.values())
    assert taken["claim + ack in batches of 100, fsync, over HTTP"] is not None
    assert not left
    needed()  # for the last of it
    assert taken["  … over HTTP, against PostgreSQL"] is not None, report["figures"]
    assert taken["  … embedded, against PostgreSQL"] is not None, report["figures"]


# Scratch files.


class Watched:
    """The command in an empty current directory, with a temporary folder and a session of its own.

    Looks into both directories while it runs.
    """

    def __init__(self, home: Path, *words: object) -> None:
        self.current, self.temporary = home / "current", home / "temporary"
        self.current.mkdir()
        self.temporary.mkdir()
        self.seen: set[str] = set()
        self.strayed: set[str] = set()
        cli = Cli(home / "data")
        self.process = subprocess.Popen(
            cli.command(*words),
            cwd=self.current,
            env=cli.env | {"TMPDIR": str(self.temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A shell that put the tests into the background has told them not to hear it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def __enter__(self) -> Watched:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)
        self.process.communicate()

    def runs_on(self) -> bool:
        """Look, and wait a moment."""
        self.strayed.update(os.listdir(self.current))
        self.seen.update(os.listdir(self.temporary))
        try:
            self.process.wait(0.02)
        except subprocess.TimeoutExpired:
            return True
        return False

    def ends(self) -> int:
        while self.runs_on():
            pass
        self.runs_on()
        return self.process.returncode

    def pids(self) -> list[int]:
        """Of the command and of what it started."""
        ours = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, _, session, *_ = path.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            if int(session) == self.process.pid and state != "Z":
                ours.append(int(path.parent.name))
        return ours

    def left(self) -> list[Path]:
        return [*self.current.iterdir(), *self.temporary.iterdir()]


@pytest.mark.parametrize(
    "words",
    [
        ("log", "--scale", "0.001", "--only", "append"),
        ("server", "--seconds", "0.1", "--only", "binary"),
        pytest.param(("sender", "--seconds", "0.05"), marks=pytest.mark.crash),
    ],
    ids=lambda words: words[0],
)
def test_the_current_directory_stays_empty(words: tuple[str, ...], tmp_path: Path) -> None:
    with Watched(tmp_path, "bench", *words) as command:
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
    words = ("bench", "server", "--seconds", "60", "--only", "binary")
    with Watched(tmp_path, *words) as command:
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
