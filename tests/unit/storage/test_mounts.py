"""The file system that holds a path, found in lines as the kernel writes them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.storage import mounts
from penstock.storage.mounts import kind_at, kind_of_filesystem, network_kind, network_kind_at

DISKS = [
    "/dev/vda / ext4 rw 0 0",
    "tmpfs /tmp tmpfs rw 0 0",
    "/dev/vdb /tmp/disk xfs rw 0 0",
    "/dev/vdc /tmp/disk btrfs rw 0 0",
    "/dev/vdd /my\\040disk xfs rw 0 0",
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
        ("/my disk/a", "xfs"),
    ],
)
def test_the_deepest_and_latest_mount_decides(path: str, kind: str) -> None:
    assert kind_at(path, DISKS) == kind


def test_a_deep_mount_decides_although_the_root_is_listed_behind_it() -> None:
    lines = ["proc /proc proc rw 0 0", "nas:/a /a nfs4 rw 0 0", "/dev/vda / ext4 rw 0 0"]

    assert kind_at("/a/b", lines) == "nfs4"
    assert kind_at("/b", lines) == "ext4"


@pytest.mark.parametrize(
    ("place", "written"),
    [
        ("/a b", r"/a\040b"),
        ("/a\tb", r"/a\011b"),
        ("/a\nb", r"/a\012b"),
        ("/a\\b", r"/a\134b"),
        ("/a#b", r"/a\043b"),
        (r"/a\040b", r"/a\134040b"),  # is unescaped once
    ],
)
def test_the_escapes_of_a_name_are_read(place: str, written: str) -> None:
    lines = ["/dev/vda / ext4 rw 0 0", f"nas:/x {written} nfs rw 0 0"]

    assert kind_at(place, lines) == kind_at(f"{place}/deep", lines) == "nfs"
    assert kind_at("/a", lines) == "ext4"


def test_a_folder_bound_to_another_place_has_the_kind_of_its_file_system_there() -> None:
    lines = [
        "/dev/vda / ext4 rw 0 0",
        "nas:/export /mnt/nas nfs4 rw 0 0",
        "nas:/export /var/lib/penstock nfs4 rw 0 0",  # mount --bind /mnt/nas/p /var/lib/penstock
        "/dev/vda /mnt/nas/local ext4 rw 0 0",  # mount --bind /home /mnt/nas/local
    ]

    assert network_kind_at("/var/lib/penstock/data", lines) == "nfs4"
    assert network_kind_at("/mnt/nas/local/data", lines) == ""


def test_a_local_disk_over_a_network_mount_hides_it_and_the_other_way_round() -> None:
    under, over = "nas:/a /data nfs4 rw 0 0", "/dev/vdb /data xfs rw 0 0"

    assert network_kind_at("/data/log", [under, over]) == ""
    assert network_kind_at("/data/log", [over, under]) == "nfs4"


def test_lines_that_make_no_sense_are_passed_over() -> None:
    assert kind_at("/a", ["", "odd", "two fields", "/dev/vda / ext4 rw 0 0", ""]) == "ext4"
    assert kind_at("/a", []) == ""


@pytest.mark.parametrize(
    "kind",
    [
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "ceph", "fuse.ceph"),
        *("fuse.ceph-fuse", "glusterfs", "fuse.glusterfs", "lustre", "afs", "9p"),
        *("fuse.s3fs", "fuse.gcsfuse", "fuse.rclone"),
    ],
)
def test_file_systems_of_a_network_are_named(kind: str) -> None:
    lines = ["/dev/vda / ext4 rw 0 0", f"far /mnt/far {kind} rw 0 0"]

    assert network_kind_at("/mnt/far/data", lines) == kind
    assert network_kind_at("/mnt", lines) == ""


@pytest.mark.parametrize("kind", ["ext4", "overlay", "tmpfs", "virtiofs", "fuse.mergerfs", "zfs"])
def test_others_are_local(kind: str) -> None:
    assert network_kind_at("/a", [f"some / {kind} rw 0 0"]) == ""


def test_in_a_sandbox_whose_root_is_9p_no_folder_is_refused_for_being_9p() -> None:
    lines = ["none / 9p rw 0 0", "none /volume 9p rw 0 0", "nas:/a /nas nfs4 rw 0 0"]

    assert network_kind_at("/data", lines) == ""
    assert network_kind_at("/volume/data", lines) == ""
    assert network_kind_at("/nas/data", lines) == "nfs4"


def test_a_link_is_followed_and_a_folder_to_be_made_is_where_its_parents_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "a far \udcff place"  # not UTF-8
    place.mkdir()
    (tmp_path / "link").symlink_to(place)
    listed = tmp_path / "mounts"
    escaped = os.fsencode(place).replace(b" ", b"\\040")
    listed.write_bytes(b"/dev/vda / ext4 rw 0 0\nnas:/a\x0b " + escaped + b" nfs4 rw 0 0\n")
    monkeypatch.setattr(mounts, "MOUNTS", str(listed))

    assert network_kind(str(tmp_path / "link" / "to" / "make")) == "nfs4"
    assert network_kind(str(tmp_path / "made")) == ""
    assert not (place / "to").exists()


def test_on_a_system_without_a_list_of_mounts_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounts, "MOUNTS", str(tmp_path / "none"))

    assert kind_of_filesystem("/") == network_kind("/") == ""


@pytest.mark.skipif(not os.path.exists(mounts.MOUNTS), reason="the system does not tell")
def test_the_kind_of_this_system_s_file_systems_is_known() -> None:
    assert kind_of_filesystem("/proc") == "proc"
