"""Run the unit tests on every other Python that is found here, each in an environment of its own.

    python3 scripts/other_pythons.py [PYTEST ARGUMENT …]

Looks for python3.11 and later on PATH and among pyenv's versions, and leaves out the version of
`.venv`, whose tests run anyway. Environments are kept in `.venvs/` and made anew when
pyproject.toml, setup.py or a kernel changed. Prints what it found; finding none is no failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MINORS = range(11, 15)  # 3.11 to 3.14: the ones that pyproject.toml claims
HOME = ROOT / ".venvs"
KERNELS = ROOT.glob("src/penstock/*/kernel_source/*.p*")
SOURCES = (ROOT / "pyproject.toml", ROOT / "setup.py", *KERNELS)


def version_of(python: str) -> str:
    """Like 3.12; empty if it does not run."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, timeout=120, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip()


def candidates() -> list[str]:
    names = [f"python3.{minor}" for minor in MINORS]
    on_path = [found for name in names if (found := shutil.which(name))]
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    of_pyenv = [
        str(one) for one in sorted(versions.glob("3.*/bin/python3"), reverse=True) if one.exists()
    ]
    return of_pyenv + on_path


def found_pythons() -> dict[str, str]:
    """Version -> path, of those that are claimed and are not the one of `.venv`."""
    wanted = {f"3.{minor}" for minor in MINORS} - {version_of(str(ROOT / ".venv/bin/python"))}
    found: dict[str, str] = {}
    for python in candidates():
        version = version_of(python)
        if version in wanted and version not in found:
            found[version] = python
    return dict(sorted(found.items(), key=lambda one: int(re.sub(r"\D", "", one[0]))))


def environment(version: str, python: str) -> Path:
    """An environment with Penstock and what its units need; made when it is missing or old."""
    home = HOME / version
    stamp = home / ".installed"
    newest = max(source.stat().st_mtime for source in SOURCES)
    if stamp.exists() and stamp.stat().st_mtime >= newest:
        return home
    print(f"other pythons: making an environment for Python {version}", flush=True)
    if not (home / "bin/python").exists():
        subprocess.run([python, "-m", "venv", str(home)], check=True)
    pip = [str(home / "bin/python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", "-e", ".[units]"], cwd=ROOT, check=True)
    stamp.touch()
    return home


def start(version: str, home: Path, arguments: list[str]) -> tuple[subprocess.Popen[bytes], Path]:
    """Start the unit tests of one Python; they write into a file, since others run beside them."""
    output = Path(tempfile.mkstemp(prefix=f"units-{version}-", suffix=".txt")[1])
    # Plain asserts: rewriting them takes a third as long as the tests do.
    options = ["-p", "no:xdist", "--assert=plain"]
    command = [str(home / "bin/pytest"), *options, *arguments, "tests/unit"]
    env = os.environ | {"PENSTOCK_RIG": "brief"}  # the examples are drawn in full on .venv's
    with output.open("wb") as file:
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=file, stderr=file), output


def main(arguments: list[str]) -> int:
    found = found_pythons()
    if not found:
        print("other pythons: none found besides the one of .venv; nothing more to run")
        return 0
    print(f"other pythons: found {', '.join(found)}", flush=True)
    failed = []
    running = {}
    for version, python in found.items():
        try:
            home = environment(version, python)
        except subprocess.CalledProcessError as error:
            print(f"other pythons: no environment for {version}: {error}", file=sys.stderr)
            failed.append(version)
            continue
        # One process each, all at once: the cores are busy, and each collects the tests once.
        print(f"other pythons: unit tests on Python {version}", flush=True)
        running[version] = start(version, home, arguments)
    for version, (process, output) in running.items():
        code = process.wait()
        lines = output.read_text(errors="replace").splitlines()
        output.unlink()
        shown = lines if code else lines[-1:]
        print(f"other pythons: Python {version}: ", "\n".join(shown), sep="", flush=True)
        if code:
            failed.append(version)
    if failed:
        print(f"other pythons: FAILED on Python {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
