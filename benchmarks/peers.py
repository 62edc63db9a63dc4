"""Other programs that are measured beside Penstock: nginx, Redis and NATS, as packaged by Debian.

Each runs as a process with its own port and directory. If a program is missing, its figures give
the reason; nothing fails.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator

import msgspec

from benchmarks.peers_sockets import make_stream
from benchmarks.server_process import (
    DidNotStart,
    Missing,
    Server,
    free_port,
    listening,
    process,
)

Start = Callable[[str], contextlib.AbstractContextManager[Server]]
"""Starts a server in a folder."""

# Debian keeps each version of PostgreSQL in a place of its own; the newest goes first.
_VERSIONS = sorted(glob.glob("/usr/lib/postgresql/[1-9][0-9]/bin"), reverse=True)
_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", *_VERSIONS])

_NGINX = """daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr crit;
{user}
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{ return 200 "{{}}"; }}
    }}
}}
"""

_NATS = """listen: "127.0.0.1:{port}"
ping_interval: "1h"
jetstream {{ store_dir: "store", max_file_store: 64GB, max_memory_store: 256MB }}
"""


class Peer(msgspec.Struct, frozen=True):
    """A program, its Debian package, and the option that prints its version."""

    program: str
    package: str
    version_option: str

    @property
    def path(self) -> str | None:
        return shutil.which(self.program, path=_PATH)

    @property
    def missing(self) -> Missing:
        return Missing(f"{self.program} is not installed; {self.how}")

    @property
    def how(self) -> str:
        return f"install it with: apt-get install {self.package}"

    @property
    def note(self) -> str:
        return self.path or self.how

    @property
    def version(self) -> str:
        """The first line of its version; empty if it is not installed."""
        if not self.path:
            return ""
        said = subprocess.run(
            [self.path, self.version_option], capture_output=True, text=True, check=False
        )
        return (said.stdout + said.stderr).strip().splitlines()[0]


NGINX = Peer("nginx", "nginx", "-v")
REDIS = Peer("redis-server", "redis-server", "--version")
NATS = Peer("nats-server", "nats-server", "--version")
PEERS = (NGINX, REDIS, NATS)


@contextlib.contextmanager
def nginx(folder: str) -> Iterator[Server]:
    """One worker that answers every request at once with `{}`."""
    port = free_port()
    user = (
        "user root;" if os.geteuid() == 0 else ""
    )  # otherwise its worker may not enter the folder
    _write(folder, "nginx.conf", _NGINX.format(port=port, user=user))
    options = ["-p", folder, "-e", "stderr", "-c", "nginx.conf"]
    with _peer(NGINX, options, folder, port) as server:
        yield server


@contextlib.contextmanager
def redis(folder: str, appendfsync: str) -> Iterator[Server]:
    """With an append-only file that is never rewritten meanwhile, and no snapshots."""
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--dir", folder, "--save", ""]
    options += ["--appendonly", "yes", "--appendfsync", appendfsync]
    options += ["--auto-aof-rewrite-percentage", "0", "--loglevel", "warning"]
    with _peer(REDIS, options, folder, port) as server:
        yield server


@contextlib.contextmanager
def nats(folder: str) -> Iterator[Server]:
    """JetStream with a stream in file storage. Its acknowledgements do not wait for a sync."""
    port = free_port()
    _write(folder, "nats.conf", _NATS.format(port=port))
    with _peer(NATS, ["-c", "nats.conf"], folder, port) as server:
        if isinstance(server, Missing):
            yield server
            return
        make_stream(port, "bench")
        yield server


@contextlib.contextmanager
def _peer(peer: Peer, options: list[str], folder: str, port: int) -> Iterator[Server]:
    if not peer.path:
        yield peer.missing
        return
    with contextlib.ExitStack() as held:
        try:
            found: Server = held.enter_context(
                process(peer.program, [peer.path, *options], folder, port=listening(port))
            )
        except DidNotStart as error:
            found = Missing(f"{peer.program} did not start: {error}")
        yield found


def _write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)
