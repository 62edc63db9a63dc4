"""Which file system holds a path, as `/proc/self/mounts` tells, and whether it is one of a network.

A lock of a network file system may hold on this machine alone, and a sync may return before the
server has the bytes: two writers, and acknowledged records that are lost. What follows from that is
for the callers to decide. Without `/proc`, as on macOS, nothing is known.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Final

MOUNTS: Final = "/proc/self/mounts"
_NETWORK: Final = frozenset(
    {
        "afs",
        "ceph",
        "cifs",
        "fuse.ceph",
        "fuse.ceph-fuse",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2})")  # of blanks, line ends, # and the backslash


def kind_of_filesystem(path: str) -> str:
    """The type of the file system that holds `path`, such as ext4 or tmpfs; empty if unknown."""
    return kind_at(os.path.realpath(path), _read())


def network_kind(path: str) -> str:
    """The type of the network file system that holds `path`; empty if it is local, or unknown.

    `path` need not exist: its parents tell.
    """
    with contextlib.suppress(OSError):
        os.stat(f"{path}/.")  # a folder may be mounted when it is first used
    return network_kind_at(os.path.realpath(path), _read())


def network_kind_at(path: str, mounts: list[str]) -> str:
    """9p is a share of the host (a drive of Windows in WSL, a folder of a virtual machine), but
    also what some sandboxes show for every folder, the root included: those are not refused."""
    kind = kind_at(path, mounts)
    if kind in _NETWORK or (kind == "9p" and kind_at("/", mounts) != "9p"):
        return kind
    return ""


def kind_at(path: str, mounts: list[str]) -> str:
    """The type of the deepest mount that holds `path`; of two at one place, the later one."""
    best, kind = "", ""
    for mount in mounts:
        fields = mount.split(" ")
        if len(fields) < 3:
            continue
        place = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[1])
        inside = path == place or path.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, fields[2]
    return kind


def _read() -> list[str]:
    """The lines of the kernel; other line ends than its own may be parts of names."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            return file.read().split("\n")
    except OSError:
        return []
