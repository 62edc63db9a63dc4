"""Settings of a session; sessions themselves are tried in tests/spark."""

from __future__ import annotations

import pytest

from penstock.errors import InvalidArgument
from penstock.spark import sessions


def test_a_local_session_fits_a_laptop_and_stays_on_it() -> None:
    found = sessions.settings_of(master="local[2]", shuffle_partitions=3)

    assert found["spark.driver.memory"] == "2g"
    assert found["spark.sql.shuffle.partitions"] == "3"
    assert found["spark.ui.enabled"] == "false"
    assert "log4j2.properties -Dpenstock.log.level=ERROR" in found["spark.driver.extraJavaOptions"]
    assert found["spark.driver.bindAddress"] == "127.0.0.1"


def test_a_cluster_is_told_what_to_bring_and_reaches_its_driver() -> None:
    found = sessions.settings_of(master="spark://host:7077", ui=True, py_files=["a.zip", "b.py"])

    assert found["spark.submit.pyFiles"] == "a.zip,b.py"
    assert found["spark.ui.enabled"] == "true"
    assert "spark.driver.host" not in found


def test_a_session_needs_a_master() -> None:
    with pytest.raises(InvalidArgument, match="local"):
        sessions.session(master="")
