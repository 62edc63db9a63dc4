"""A SparkSession with settings for one machine, on which `format("penstock")` is registered."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from penstock.errors import InvalidArgument
from penstock.spark import java
from penstock.spark.source import register

_SHUFFLE_MIN: Final = 2
_JAVA: Final = "spark.driver.extraJavaOptions"
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")


def session(
    name: str = "penstock",
    *,
    master: str = "local[*]",
    driver_memory: str = "2g",
    shuffle_partitions: int = 0,
    ui: bool = False,
    py_files: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
    log_level: str = "ERROR",
) -> SparkSession:
    """The Spark session of this process, started if there is none.

    `master` is `local[*]`, `local-cluster[2,1,1024]` or `spark://host:7077`. `py_files` go to the
    executors; `pack` makes the one that holds Penstock. Settings in `conf` override all others.
    """
    if not isinstance(master, str) or not master:
        raise InvalidArgument(f"master must be a string such as local[*], not {master!r}")
    settings = settings_of(
        master=master,
        driver_memory=driver_memory,
        shuffle_partitions=shuffle_partitions,
        ui=ui,
        py_files=py_files,
        log_level=log_level,
    )
    prepare(master)
    builder = SparkSession.builder.appName(name).master(master)
    given = dict(conf or {})
    if _JAVA in given:  # both: of two equal options Java uses the last
        given[_JAVA] = f"{settings[_JAVA]} {given[_JAVA]}"
    for key, value in {**settings, **given}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def _quoted(path: Path) -> str:
    """Quoted for Spark, which splits Java options at blanks."""
    text = str(path)
    return f'"{text}"' if " " in text else text


def prepare(master: str) -> None:
    """Set environment variables of Spark that are not set yet. Call it before Java starts."""
    os.environ.update(java.prepare())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if master.startswith("local"):  # no other machine has to connect
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def settings_of(
    *,
    master: str,
    driver_memory: str = "2g",
    shuffle_partitions: int = 0,
    ui: bool = False,
    py_files: Sequence[str] = (),
    log_level: str = "ERROR",
) -> dict[str, str]:
    """The Spark settings of a session."""
    shuffles = shuffle_partitions or max(_SHUFFLE_MIN, os.cpu_count() or 1)
    settings = {
        "spark.driver.memory": driver_memory,
        "spark.sql.shuffle.partitions": str(shuffles),
        "spark.ui.enabled": "true" if ui else "false",
        "spark.ui.showConsoleProgress": "false",
        _JAVA: f"-Dlog4j2.configurationFile={_quoted(_LOGGING)} -Dpenstock.log.level={log_level}",
    }
    if master.startswith("local"):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    if py_files:
        settings["spark.submit.pyFiles"] = ",".join(py_files)
    return settings
