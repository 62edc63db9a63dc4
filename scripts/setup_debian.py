"""Install the Debian packages that some rigs need, where they are missing.

Run as root on Debian or a relative of it. Elsewhere it says so and changes nothing; the tests that
need these programs skip themselves.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys

# Package -> a program it brings. strace kills a process at a chosen system call; e2fsprogs makes
# the file systems whose power is cut.
PACKAGES = {"strace": "strace", "e2fsprogs": "mkfs.ext4"}
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
APT_TIMEOUT_S = 300


def missing() -> list[str]:
    """Packages whose program is not on this machine."""
    return [name for name, program in PACKAGES.items() if not shutil.which(program, path=PATH)]


def install(packages: list[str]) -> int:
    """Run apt-get, showing each command; returns the first exit code that is not zero."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "--quiet"],
        ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *packages],
    ):
        print("+", " ".join(command), flush=True)
        code = subprocess.run(command, env=environment, timeout=APT_TIMEOUT_S).returncode
        if code:
            return code
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="only say what would be installed")
    arguments = parser.parse_args()

    packages = missing()
    if not packages:
        print("setup_debian: nothing missing")
        return 0
    print("setup_debian: missing", ", ".join(packages))
    if arguments.dry_run:
        return 0
    if not shutil.which("apt-get"):
        print("setup_debian: no apt-get here; install them by hand")
        return 1
    if os.geteuid() != 0:
        print("setup_debian: not root; run: apt-get install", " ".join(packages))
        return 1
    return install(packages)


if __name__ == "__main__":
    sys.exit(main())
