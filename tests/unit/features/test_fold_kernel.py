"""The fold kernel: its source, its two forms, and what both refuse."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from penstock.features import fold_kernel
from tests.support.operators import compiled_kernel

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src/penstock/features/kernel_source"
INTERPRETED_ONLY = {"__init__", "interpreted"}


@pytest.fixture(params=["interpreted", "compiled"])
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    is_pure = request.param == "interpreted"
    return fold_kernel.load(pure=True) if is_pure else compiled_kernel()


def build_script() -> dict[str, object]:
    """The names of setup.py, which builds nothing when it is not the main program."""
    return runpy.run_path(str(ROOT / "setup.py"))


def test_every_file_of_the_source_is_joined() -> None:
    fold = build_script()["FOLD"]

    joined = {*fold.constants, *fold.parts}  # type: ignore[attr-defined]

    assert joined == {path.stem for path in SOURCE.glob("*.py")} - INTERPRETED_ONLY
    assert {path.stem for path in SOURCE.glob("*.pxd")} <= joined


def test_the_joined_source_has_every_function_once() -> None:
    script = build_script()

    source = script["joined_source"](script["FOLD"])  # type: ignore[operator]
    names = re.findall(r"^(?:    )?(?:def|class) (\w+)\(", source, re.MULTILINE)

    assert len(names) == len(set(names))


def test_both_forms_and_their_types_have_the_same_functions() -> None:
    interpreted, compiled = fold_kernel.load(pure=True), compiled_kernel()
    stub = (SOURCE.parent / "_fold_kernel.pyi").read_text(encoding="utf-8")

    functions = set(interpreted.__all__) - {"COMPILED"}

    assert {name for name in functions if not hasattr(compiled, name)} == set()
    assert set(re.findall(r"^def (\w+)\(", stub, re.MULTILINE)) == functions
    assert (interpreted.COMPILED, compiled.COMPILED) == (False, True)


@pytest.mark.parametrize("pure", ["0", "1"])
def test_the_environment_can_ask_for_the_interpreted_form(pure: str) -> None:
    program = "from penstock.features.fold_kernel import chosen; print(chosen.COMPILED)"
    environment = dict(os.environ, PENSTOCK_PURE=pure, PYTHONPATH=str(ROOT / "src"))

    answer = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()

    assert answer == ("False" if pure == "1" else str(fold_kernel.chosen.COMPILED))


def test_a_row_beyond_the_state_is_refused(kernel: ModuleType) -> None:
    counts = np.zeros(3, np.int64)

    with pytest.raises(IndexError):
        kernel.fold_counts(np.array([1, 3]), np.ones(2, np.bool_), counts)


def test_arrays_that_are_read_may_be_read_only(kernel: ModuleType) -> None:
    rows, passes, counts = np.array([1, 1]), np.ones(2, np.bool_), np.zeros(3, np.int64)
    rows.flags.writeable = passes.flags.writeable = False

    kernel.fold_counts(rows, passes, counts)

    assert counts.tolist() == [0, 2, 0]
