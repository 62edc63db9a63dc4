"""A killed server with a saved state, a replay without one, and a snapshot of a given size."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import features_events as made
from benchmarks import features_replays
from benchmarks.features_replays import replay_figures
from benchmarks.features_restarts import filled, restarted
from benchmarks.features_sizes import size_figures
from benchmarks.load_cpu import Cores
from benchmarks.server_stand import Stand

KEYS = 2_000


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(str(tmp_path), 0.05, Cores(set()), rounds=1)


def test_a_killed_server_folds_what_is_behind_its_saved_state(stand: Stand, tmp_path: Path) -> None:
    filled(str(tmp_path), KEYS)
    tail = made.batches(2, KEYS)

    found = restarted(stand, str(tmp_path), tail)

    assert found.folded == 2 * made.BATCH
    assert found.rebuilds == 0
    assert found.ready_ms > 0
    assert found.seconds > 0


def test_a_server_whose_saved_state_is_gone_is_told_apart(stand: Stand, tmp_path: Path) -> None:
    filled(str(tmp_path), KEYS)
    shutil.rmtree(tmp_path / "data" / "projections")
    tail = made.batches(2, KEYS)

    found = restarted(stand, str(tmp_path), tail)

    assert found.folded == KEYS + 2 * made.BATCH


def test_a_replay_folds_every_event_and_only_a_million_has_a_goal(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features_replays, "_SHORT_EVENTS", 2_000)

    (figure,) = replay_figures(stand)

    assert figure.name == "replay of 2,000 events"
    assert figure.value > 0
    assert figure.goal is None


def test_a_snapshot_of_a_size_is_loaded_and_a_larger_one_only_extrapolated(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.features_sizes._SAMPLE_KEYS", 1_000)

    rate, _, target = size_figures(stand, 1_000_000)

    megabytes = rate.note.split(" keys, ")[1].split(" MB")[0]
    assert 0.9 <= float(megabytes) <= 2
    assert target.value == pytest.approx(10_000 / rate.value)
    assert "extrapolated" in target.note
    assert "not measured" in target.note
