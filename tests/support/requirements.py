"""What a test needs beyond Python and make: root, a Debian package, Java, a compiler.

On a laptop such a test is skipped, and the run's last lines say so. In CI it fails.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import pytest

IN_CI = bool(os.environ.get("CI"))
AS_ROOT = "run `sudo make test`"
FROM_DEBIAN = "run `sudo python3 scripts/setup_debian.py`"

_REASON = re.compile(r"needs (?P<what>.*?) \((?P<how>.*)\)$")


def lacking(what: str, how: str) -> NoReturn:
    """End this test: the machine has no `what`, and `how` gets it."""
    reason = f"needs {what} ({how})"
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


def root_and_loop_devices() -> None:
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists():
        lacking("root and loop devices", AS_ROOT)


def debian_program(name: str) -> str:
    """The path of a program that `scripts/setup_debian.py` installs."""
    found = shutil.which(name)
    return found if found else lacking(name, FROM_DEBIAN)


def summary(reasons: Iterable[str]) -> str:
    """One line on the tests that were not run for want of something; empty if there are none."""
    matches = [found for reason in reasons if (found := _REASON.search(reason))]
    if not matches:
        return ""
    counts = Counter((found["what"], found["how"]) for found in matches)
    parts = [f"{count} that need {what} ({how})" for (what, how), count in counts.most_common()]
    return f"not run on this machine: {len(matches)} tests: " + "; ".join(parts)
