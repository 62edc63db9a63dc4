"""scripts/contain.py: what runs in it leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import requirements
from tests.support.rig import ROOT
from tests.support.serving import eventually

SCRIPT = str(ROOT / "scripts/contain.py")

# Leaves a process that nobody waits for and a file, and says who it is.
MESSY = """
import os, subprocess, sys, tempfile
held = open(os.path.join(tempfile.gettempdir(), "held"), "w")
child = subprocess.Popen(
    [sys.executable, "-c", "import time; time.sleep(3600)"],
    stderr=subprocess.DEVNULL,
    start_new_session=True,
)
with open(sys.argv[1], "w") as told:
    told.write(f"{child.pid} {tempfile.gettempdir()}")
os.replace(sys.argv[1], sys.argv[1] + ".done")
"""
WAITS = "import time\ntime.sleep(3600)\n"


def contained(tmp_path: Path, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SCRIPT, sys.executable, "-c", program, str(tmp_path / "told")],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    )


def told(tmp_path: Path) -> tuple[int, Path]:
    """The process that was left, and the temporary folder of the run."""
    path = tmp_path / "told.done"
    eventually(path.exists, "the program has begun")
    pid, _, folder = path.read_text().partition(" ")
    return int(pid), Path(folder)


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.parametrize("exit_code", [0, 3])
def test_a_process_that_was_left_is_killed_and_files_stay_only_after_a_failure(
    tmp_path: Path, exit_code: int
) -> None:
    run = contained(tmp_path, f"{MESSY}\nsys.exit({exit_code})")
    _, said = run.communicate()

    pid, folder = told(tmp_path)
    assert run.returncode == exit_code
    assert is_gone(pid)
    assert "killed a process that was left behind" in said
    assert folder.parent == tmp_path
    assert folder.exists() == (exit_code != 0)
    assert (str(folder) in said) == (exit_code != 0)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_leaves_nothing(tmp_path: Path, end: signal.Signals) -> None:
    run = contained(tmp_path, MESSY + WAITS)
    pid, folder = told(tmp_path)

    run.send_signal(end)
    run.communicate()

    assert run.returncode == 128 + end
    assert is_gone(pid)
    assert not folder.exists()


def test_what_a_killed_run_left_is_removed_by_the_next(tmp_path: Path) -> None:
    run = contained(tmp_path, MESSY + WAITS)
    pid, folder = told(tmp_path)
    run.kill()
    run.communicate()
    os.kill(pid, signal.SIGKILL)  # of all it left only the process is ours to end
    (tmp_path / "told.done").unlink()
    assert (folder / "held").exists()

    subprocess.run(
        [sys.executable, SCRIPT, "true"], env=os.environ | {"TMPDIR": str(tmp_path)}, check=True
    )

    assert not folder.exists()


def test_a_folder_of_a_run_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    run = contained(tmp_path, MESSY + WAITS)
    _, folder = told(tmp_path)

    subprocess.run(
        [sys.executable, SCRIPT, "true"], env=os.environ | {"TMPDIR": str(tmp_path)}, check=True
    )

    assert (folder / "held").exists()
    run.terminate()
    run.communicate()


@pytest.mark.root
def test_mounts_and_loop_devices_go_with_an_interrupted_run(tmp_path: Path) -> None:
    requirements.debian_program("mkfs.ext4")
    mounts = f"""
import sys, tempfile
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.support.cuts import LoopDisk
disk = LoopDisk(Path(tempfile.gettempdir()) / "disk")
disk.__enter__()
{MESSY}
{WAITS}
"""
    run = contained(tmp_path, mounts)
    _, folder = told(tmp_path)
    assert str(folder) in Path("/proc/mounts").read_text()

    run.terminate()
    run.communicate()

    assert not folder.exists()
    assert str(folder) not in Path("/proc/mounts").read_text()
    loops = [path.read_text() for path in Path("/sys/block").glob("loop*/loop/backing_file")]
    assert not [one for one in loops if str(folder) in one]


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="only Linux has such a folder")
def test_a_temporary_folder_in_memory_is_not_used(tmp_path: Path) -> None:
    """There a sync costs nothing, and the rigs would prove nothing."""
    told = "import tempfile; print(tempfile.gettempdir())"

    done = subprocess.run(
        [sys.executable, SCRIPT, sys.executable, "-c", told],
        env=os.environ | {"TMPDIR": "/dev/shm"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert Path(done.stdout.strip()).parent == tmp_path / ".rig"
    assert list((tmp_path / ".rig").iterdir()) == []
