"""Install the Debian packages that some rigs and benchmarks need, where they are missing.

Run as root on Debian or a relative of it. Elsewhere it says so and changes nothing; the tests that
need these programs skip themselves. Servers among them are installed for their programs only:
whoever measures or tests starts one of its own, and the packaged service neither runs nor starts at
the next boot.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# Package -> a program it brings. strace kills a process at a chosen system call; openssl makes a
# certificate; e2fsprogs makes
# the file systems whose power is cut; `python -m benchmarks server` measures redis, nats and nginx
# beside our server, and `python -m benchmarks queue` beanstalkd and postgresql; chromium is the
# browser that a foreign page must not misuse.
PACKAGES = {
    "strace": "strace",
    "openssl": "openssl",
    "e2fsprogs": "mkfs.ext4",
    "redis-server": "redis-server",
    "nats-server": "nats-server",
    "nginx": "nginx",
    "beanstalkd": "beanstalkd",
    "postgresql": "postgres",
    "chromium": "chromium",
}
# Package -> the service it would start.
SERVICES = {
    "redis-server": "redis-server.service",
    "nats-server": "nats-server.service",
    "nginx": "nginx.service",
    "beanstalkd": "beanstalkd.service",
    "postgresql": "postgresql.service",
}
POLICY = Path("/usr/sbin/policy-rc.d")  # asked by packages before they start a service
PATH = os.pathsep.join(
    # Debian keeps each version of PostgreSQL in a place of its own.
    [os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *glob.glob("/usr/lib/postgresql/*/bin")]
)
APT_TIMEOUT_S = 600


def missing() -> list[str]:
    """Packages whose program is not on this machine."""
    return [name for name, program in PACKAGES.items() if not shutil.which(program, path=PATH)]


@contextlib.contextmanager
def services_asleep() -> Iterator[None]:
    """While inside, no package starts a service. A policy that is there already stays."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n", encoding="ascii")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def run(command: list[str]) -> int:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print("+", " ".join(command), flush=True)
    return subprocess.run(command, env=environment, timeout=APT_TIMEOUT_S).returncode


def install(packages: list[str]) -> int:
    """Run apt-get, showing each command; returns the first exit code that is not zero."""
    with services_asleep():
        code = run(["apt-get", "update", "--quiet"]) or run(
            ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends", *packages]
        )
    services = [SERVICES[name] for name in packages if name in SERVICES]
    if services and Path("/run/systemd/system").exists():
        # Packages enable what they may not start, and it would run after the next boot.
        run(["systemctl", "disable", "--now", *services])
    return code


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
