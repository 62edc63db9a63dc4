from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import DirectoryInUse
from penstock.lake import layout
from penstock.lake.project import parsed
from penstock.storage.fs import OsFilesystem

TEXT = """
[source]
path = "log"
topics = "*"
[silver.orders]
topics = "orders"
columns = { id = "long" }
[gold.sums]
sql = "sums.sql"
"""


def test_every_table_has_its_directory(tmp_path: Path) -> None:
    found = layout.tables(OsFilesystem(), parsed(TEXT, "/p"))

    assert {table.name: table.root for table in found} == {
        "bronze": "/p/lake/bronze",
        "orders": "/p/lake/silver/orders",
        "sums": "/p/lake/gold/sums",
    }


def test_two_runs_at_a_time_are_one_too_many(tmp_path: Path) -> None:
    fs, project = OsFilesystem(), parsed(TEXT, str(tmp_path))

    with (
        layout.locked(fs, project),
        pytest.raises(DirectoryInUse) as caught,
        layout.locked(fs, project),
    ):
        pass

    assert caught.value.pid == os.getpid()
    with layout.locked(fs, project):  # and afterwards it is free
        pass
