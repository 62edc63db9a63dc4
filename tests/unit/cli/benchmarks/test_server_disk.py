"""Which disk a directory is on, and that memory is not taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.benchmarks import server_disk
from penstock.cli.benchmarks.server_disk import kind_at, refuse_memory, sync_ms
from penstock.errors import InvalidArgument

MOUNTS = [
    "/dev/vda / ext4 rw 0 0",
    "tmpfs /tmp tmpfs rw 0 0",
    "/dev/vdb /tmp/disk xfs rw 0 0",
    "/dev/vdc /tmp/disk btrfs rw 0 0",
]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/home/a", "ext4"),
        ("/tmp", "tmpfs"),
        ("/tmp/a", "tmpfs"),
        ("/tmpfoo", "ext4"),
        ("/tmp/disk/a", "btrfs"),
    ],
)
def test_the_deepest_and_latest_mount_decides(path: str, kind: str) -> None:
    assert kind_at(path, MOUNTS) == kind


def test_a_directory_in_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_disk, "file_system", lambda path: "tmpfs")

    with pytest.raises(InvalidArgument, match="memory"):
        refuse_memory("/anywhere")


def test_a_sync_takes_time_and_leaves_nothing(tmp_path: Path) -> None:
    assert sync_ms(str(tmp_path)) > 0
    assert not list(tmp_path.iterdir())
