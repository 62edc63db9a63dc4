"""R22: what commit 50e81f0 saved of tables and features is used, and so is a snapshot of its time.

`scripts/make_golden_directories.py` made the directory with the code of that commit, pure Python,
and wrote down what it read there and how it went on in a copy.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.fsck import check
from penstock.storage.fs import OsFilesystem
from penstock.testing import FakeClock
from tests.integration.test_golden_directories import PRIVATE_PATH
from tests.support import golden_features
from tests.support.golden_directories import GOLDEN, Json, SameBoot, expectation, unpack

EARLIER = GOLDEN / "50e81f0"
EXPECTED = expectation("features", EARLIER)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return unpack("features", tmp_path, EARLIER)


def alike(found: Json) -> Any:
    """The same, where the functions of mathematics of another machine may round otherwise."""
    match found:
        case dict():
            return {name: alike(value) for name, value in found.items()}
        case list():
            return [alike(value) for value in found]
        case float():
            return pytest.approx(found, rel=1e-12, abs=1e-12, nan_ok=True)
        case _:
            return found


def as_json(value: Json) -> Json:
    return json.loads(json.dumps(value))


def test_saved_states_are_used_and_only_what_came_after_them_is_folded(home: Path) -> None:
    clock = FakeClock(EXPECTED["now_ms"])

    with golden_features.open_home(home, clock, SameBoot()) as log:
        tails = golden_features.tails(log)
        held = golden_features.describe(log, clock.now_ms())
        counts = {
            f"{one.definition.kind}/{one.definition.name}": one.runner.counts
            for one in log.projections.everything()
        }
        moved = [part.evicted for one in log.features.tables() for part in one.parts]
        assert log.damage == []

    assert tails == EXPECTED["tails"]
    assert as_json(held) == alike(EXPECTED["held"])
    assert [(one.rebuilds, one.discarded, one.gaps) for one in counts.values()] == [
        (0, 0, 0) for _ in counts
    ]
    read = {name: one.records for name, one in counts.items() if not name.startswith("dedupe/")}
    assert read == {name: tails[name] for name in read}
    assert 0 < max(tails.values()) <= golden_features.TAIL
    assert sum(moved) > 0
    assert not [path for path in home.rglob("evicted.tmp") if path.parent.name == "1"]
    assert check(OsFilesystem(), str(home / "data")).problems == []


def test_it_goes_on_as_it_did_and_loads_the_snapshot_of_a_cluster(home: Path) -> None:
    clock = FakeClock(EXPECTED["now_ms"])

    with golden_features.open_home(home, clock, SameBoot()) as log:
        assert as_json(golden_features.describe(log, clock.now_ms())) == alike(EXPECTED["held"])
        continued = golden_features.continue_features(log, clock, home / "snapshot")
        rebuilds = [one.runner.counts.rebuilds for one in log.projections.everything()]

    assert as_json(continued) == alike(EXPECTED["continued"])
    assert set(rebuilds) == {0}
    pushed, loaded = EXPECTED["continued"]["pushed"], EXPECTED["continued"]["loaded"]
    assert pushed[-1] == 3  # were pushed before
    assert loaded[:2] == [golden_features.OLD_SAVED, golden_features.OLD]
    with golden_features.open_home(home, clock, SameBoot()) as log:
        again = golden_features.describe(log, clock.now_ms())
    assert as_json(again) == alike(EXPECTED["continued"]["held"])


def test_the_golden_features_name_no_path_of_somebodys_machine() -> None:
    with tarfile.open(EARLIER / "features.tar.xz") as archive:
        files = [archive.extractfile(entry) for entry in archive if entry.isfile()]

        assert len(files) > 10
        assert not [file.name for file in files if file and PRIVATE_PATH.search(file.read())]
