"""Which parts run, and what a part that cannot be prepared leaves behind."""

from __future__ import annotations

import math
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import server
from benchmarks.load_cpu import Cores
from benchmarks.server import PARTS, chosen, server_figures, stand_in
from benchmarks.server_process import DidNotStart
from benchmarks.server_stand import Stand
from penstock.cli.figure import Figure
from penstock.errors import InvalidArgument


def test_parts_are_chosen_by_the_beginning_of_their_name() -> None:
    assert chosen("") == list(PARTS)
    assert chosen("b") == ["batch", "binary"]
    with pytest.raises(InvalidArgument, match="post, batch"):
        chosen("nothing")


def test_a_part_that_cannot_be_prepared_says_why_and_the_next_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(stand: Stand) -> Iterator[Figure]:
        yield Figure("before", 1, "")
        raise DidNotStart("no luck")

    def sound(stand: Stand) -> Iterator[Figure]:
        yield Figure("after", 1, "")

    monkeypatch.setattr(server, "PARTS", {"broken": broken, "sound": sound})

    figures = list(server_figures(Stand(str(tmp_path), 1, Cores(set())), ""))

    assert [figure.name for figure in figures] == ["before", "broken", "after"]
    assert math.isnan(figures[1].value)
    assert figures[1].note == "no luck"


def test_a_stand_writes_below_its_folder_and_a_short_one_has_one_round(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        short = stand_in(str(tmp_path), 0.5, pinned=False)
        long = stand_in(str(tmp_path), 2, pinned=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    with short.folder() as inside:
        (Path(inside) / "file").write_text("data")

    assert Path(inside).parent == tmp_path
    assert (short.rounds, long.rounds) == (1, 3)
    assert not short.cores.are_several
    assert not list(tmp_path.iterdir())
