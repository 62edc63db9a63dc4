"""Which Java Spark gets."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from penstock.errors import StorageError
from penstock.spark import java


def fake(home: Path, version: str, code: int = 0) -> Path:
    """A `java` that says this of itself."""
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    script.chmod(0o755)
    return script


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "nothing"), **more}


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.9", 17), ("1.8.0_292", 8), ("25", 25), ("21-ea", 21)]
)
def test_a_version_has_a_major_number(tmp_path: Path, version: str, major: int) -> None:
    assert java.major_of(fake(tmp_path, version)) == major


def test_what_does_not_run_is_no_java(tmp_path: Path) -> None:
    assert java.major_of(fake(tmp_path, "17", code=1)) == 0
    assert java.major_of(tmp_path / "none") == 0


def test_a_java_that_is_new_enough_is_left_alone(tmp_path: Path) -> None:
    home = fake(tmp_path / "given", "21.0.1").parent.parent

    assert java.prepare(environment(tmp_path, JAVA_HOME=str(home))) == {}
    assert java.prepare(environment(tmp_path, PATH=str(home / "bin"))) == {}


def test_an_old_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    old = fake(tmp_path / "old", "11.0.1").parent.parent
    new = fake(tmp_path / "new", "17.0.1").parent

    found = java.prepare(environment(tmp_path, JAVA_HOME=str(old), PATH=str(new)))

    assert found == {"JAVA_HOME": str(new.parent)}


def test_without_any_java_the_one_of_pip_starts_without_its_missing_module(tmp_path: Path) -> None:
    found = java.prepare(environment(tmp_path))

    script = Path(found["JAVA_HOME"]) / "bin" / "java"
    flags = ["--add-modules=jdk.incubator.vector", "-Da=b c", "-version"]
    said = subprocess.run([script, *flags], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "version" in said.stderr
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "home" / ".cache" / "penstock").stat().st_mode) == 0o700


def test_the_script_is_made_once_and_mended(tmp_path: Path) -> None:
    real = fake(tmp_path / "it's here", "21")
    home = java.shim_home(real, tmp_path)
    before = (home / "bin" / "java").stat()

    assert java.shim_home(real, tmp_path) == home
    assert (home / "bin" / "java").stat().st_ino == before.st_ino

    (home / "bin" / "java").write_text("half")
    java.shim_home(real, tmp_path)
    assert java.major_of(home / "bin" / "java") == 21
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_a_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "cache" / "penstock"
    shared.mkdir(parents=True)
    shared.chmod(0o777)

    with pytest.raises(StorageError, match="others may write"):
        java.prepare(environment(tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache")))


def test_when_there_is_none_at_all_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "_from_pip", lambda: None)

    with pytest.raises(java.JavaMissing, match=r'pip install "penstock\[spark\]"'):
        java.prepare(environment(tmp_path))
