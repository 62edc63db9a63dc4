"""CPU time of a process tree, and who runs on which core."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.load_cpu import (
    Cores,
    Meter,
    Placement,
    available,
    busy_seconds,
    cpu_seconds,
    place,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells and obeys")


def test_with_two_cores_each_side_has_one_and_together_they_share_one() -> None:
    cores = Cores({0, 1})

    assert cores.wide == Placement([0, 1], [1])
    assert cores.apart == Placement([0], [1])
    assert cores.together == Placement([0], [0])
    assert "core 1" in cores.text


@pytest.mark.parametrize("one", [set[int](), {0}])
def test_with_one_core_the_kernel_decides(one: set[int]) -> None:
    cores = Cores(one)

    assert not cores.are_several
    assert cores.wide == cores.apart == cores.together == Placement()
    assert "kernel" in cores.text


@linux
def test_cpu_time_counts_the_process_and_its_children() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\ninput()\n"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        seen = 0.0
        while seen < 0.2:
            seen = max(seen, cpu_seconds(parent.pid))
            assert parent.poll() is None, "it ended before its child was seen at work"
        parent.communicate(b"\n")

    assert seen >= 0.2


def test_a_process_that_is_gone_has_used_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        pass

    assert cpu_seconds(child.pid) == 0


def test_a_meter_shows_what_this_process_spends() -> None:
    meter = Meter(os.getpid())

    sum(range(3_000_000))

    own, other, rest = meter.shares()
    assert own > 0
    assert other >= 0
    assert rest >= 0


@linux
def test_the_machine_was_busy_at_some_time() -> None:
    assert busy_seconds() > 0


@linux
def test_a_process_that_is_placed_stays_there() -> None:
    first = min(available())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        place(child.pid, [first])
        where = os.sched_getaffinity(child.pid)
        child.communicate(b"\n")

    assert where == {first}
