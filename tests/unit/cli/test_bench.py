"""`penstock bench`: the check of the log runs, and a benchmark that is not installed is refused."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.cli import bench
from penstock.cli.exit_codes import ExitCode
from penstock.cli.main import run


def test_the_check_measures_the_log_and_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "_RECORDS", 2_000)
    monkeypatch.setattr(bench, "_SINGLE", 10)
    milliseconds = itertools.count()  # one passes whenever somebody looks at the clock
    clock = SimpleNamespace(perf_counter=lambda: next(milliseconds) / 1000)
    monkeypatch.setattr(bench, "time", clock)
    monkeypatch.setattr(bench, "_SYNC_S", 0.01)

    figures = list(bench.log_figures(str(tmp_path)))

    assert all(figure.value > 0 for figure in figures)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", bench.NOT_INSTALLED)
def test_a_benchmark_of_the_repository_is_refused_with_the_place_where_it_is(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", name, "--seconds", "1"]) == ExitCode.USAGE

    assert f"`python -m benchmarks {name}`" in capsys.readouterr().err
