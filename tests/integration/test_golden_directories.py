"""R22: what commit b6e1408 wrote is opened, read and continued, with nothing lost or renumbered.

`scripts/make_golden_directories.py` made the directories and wrote down, with the code of that
commit, what it read in them and how it went on in a copy. The present code has to say the same.
"""

from __future__ import annotations

import json
import re
import tarfile
from pathlib import Path

import pytest

import penstock
from penstock.engine.fsck import check
from penstock.storage.fs import OsFilesystem
from penstock.testing import FakeClock
from tests.support import golden_sender
from tests.support.golden_directories import (
    EARLIER,
    Json,
    SameBoot,
    continue_log,
    describe,
    expectation,
    open_home,
    unpack,
)
from tests.support.serving import Server

# Case -> archive, and the machine on which the directory is opened.
CASES = {
    "closed": ("closed", OsFilesystem()),
    "killed": ("killed", SameBoot()),
    "rebooted": ("killed", OsFilesystem()),
}
PRIVATE_PATH = re.compile(rb"/(?:work|root|home|Users)/")


@pytest.mark.parametrize("case", CASES)
def test_a_directory_holds_what_the_earlier_commit_read_there(case: str, tmp_path: Path) -> None:
    archive, fs = CASES[case]
    home = unpack(archive, tmp_path)
    expected = expectation(case)
    clock = FakeClock(expected["now_ms"])

    with open_home(home, clock, fs) as log:
        held = _json(describe(log))
        assert log.damage == []

    assert held == expected["held"]
    _check_clean(home)
    with open_home(home, clock, fs) as log:
        assert _json(describe(log)) == expected["held"]


@pytest.mark.parametrize("case", CASES)
def test_a_directory_goes_on_as_it_did_in_the_earlier_commit(case: str, tmp_path: Path) -> None:
    archive, fs = CASES[case]
    home = unpack(archive, tmp_path)
    expected = expectation(case)
    clock = FakeClock(expected["now_ms"])

    with open_home(home, clock, fs) as log:
        continued = _json(continue_log(log, clock))
        after = _lasting(log)

    assert continued == expected["continued"]
    _check_clean(home)
    with open_home(home, clock, fs) as log:
        assert _lasting(log) == after


def test_a_sender_delivers_the_slot_of_the_earlier_commit_once(tmp_path: Path) -> None:
    home = unpack("sender", tmp_path)
    expected = expectation("sender")
    spool = home / "spool"

    slot = golden_sender.describe_slot(spool)
    server = Server(home, golden_sender.SERVER).start()
    try:
        host, port = server.connect_to
        with penstock.connect(f"http://{host}:{port}") as client:
            held = golden_sender.describe_server(client)
        continued = golden_sender.continue_sender(f"{host}:{port}", spool)
        server.stop()
    finally:
        server.close()

    assert slot == expected["slot"]
    assert _json(held) == expected["server"]
    assert _json(continued) == expected["continued"]
    _check_clean(home)


@pytest.mark.parametrize("name", ["closed", "killed", "lake", "sender"])
def test_golden_directories_name_no_path_of_somebodys_machine(name: str) -> None:
    with tarfile.open(EARLIER / f"{name}.tar.xz") as archive:
        found = [
            (entry.name, data[at.start() :][:80])
            for entry in archive
            if entry.isfile() and (file := archive.extractfile(entry))
            for data in [file.read()]
            for at in PRIVATE_PATH.finditer(data)
        ]

    assert not found


def _check_clean(home: Path) -> None:
    report = check(OsFilesystem(), str(home / "data"))
    assert report.problems == []
    assert report.is_clean


def _lasting(log: penstock.Log) -> Json:
    """All that outlives a restart."""
    found = _json(describe(log))
    del found["topics"]["class.ephemeral"]
    return found


def _json(value: Json) -> Json:
    return json.loads(json.dumps(value))
