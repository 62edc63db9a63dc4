"""Power cuts for real: a file system on a loop device, taken down by its own shutdown call.

The shutdown ioctl stops a file system dead: what was not synced is lost, and every later call
fails. The kernel goes on, and with it the boot id, so `CutFilesystem` is told which boot it is.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from penstock.storage.fs import OsFile, OsFilesystem

FLUSH_ALL, FLUSH_JOURNAL, FLUSH_NOTHING = 0, 1, 2  # what the shutdown still writes
IMAGE_BYTES = 96 << 20
_FS_IOC_SHUTDOWN = 0x8004587D
_MNT_DETACH = 2

_libc = ctypes.CDLL(None, use_errno=True)

When = Literal["timed", "before", "after"]


def shut_down(mount: str | os.PathLike[str], flags: int) -> None:
    """Cut the power of the file system mounted here."""
    fd = os.open(mount, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.ioctl(fd, _FS_IOC_SHUTDOWN, struct.pack("I", flags))
    finally:
        os.close(fd)


class CutFilesystem(OsFilesystem):
    """The real file system under a boot id of ours. `on_sync` is called around every sync with
    the number of the sync and whether it is over; it may end the process."""

    def __init__(self, boot: int, on_sync: Callable[[bool], None] | None = None) -> None:
        super().__init__()
        self._boot = boot
        self._on_sync = on_sync

    def boot_id(self) -> str:
        return f"boot-{self._boot}"

    def create(self, path: str) -> OsFile:
        return self._watched(super().create(path))

    def open(self, path: str, *, writable: bool = False) -> OsFile:
        return self._watched(super().open(path, writable=writable))

    def sync_dir(self, path: str) -> None:
        self._tell(False)
        super().sync_dir(path)
        self._tell(True)

    def _watched(self, file: OsFile) -> OsFile:
        if self._on_sync is None:
            return file
        return _WatchedFile(file, self._on_sync)

    def _tell(self, is_over: bool) -> None:
        if self._on_sync is not None:
            self._on_sync(is_over)


class _WatchedFile(OsFile):
    """An open file that tells of its syncs."""

    __slots__ = ("_on_sync",)

    def __init__(self, file: OsFile, on_sync: Callable[[bool], None]) -> None:
        super().__init__(file._fd, file.path, writable=True)
        file._fd = -1
        self._on_sync = on_sync

    def sync(self) -> None:
        self._on_sync(False)
        super().sync()
        self._on_sync(True)


class CutAtSync:
    """Cut the power right before or right after the nth sync of this process, and die."""

    def __init__(self, mount: str, nth: int, flags: int, when: When) -> None:
        self._mount = mount
        self._left = nth
        self._flags = flags
        self._is_after = when == "after"

    def __call__(self, is_over: bool) -> None:
        if is_over is not self._is_after:
            return
        self._left -= 1
        if self._left == 0:
            shut_down(self._mount, self._flags)
            os.kill(os.getpid(), signal.SIGKILL)


class LoopDisk:
    """An ext4 image on a loop device. A context manager: nothing is left behind."""

    def __init__(self, home: Path) -> None:
        self._image = home / "disk.img"
        self.mount_point = home / "mnt"
        self._device = ""
        self._is_mounted = False

    def __enter__(self) -> LoopDisk:
        self.mount_point.mkdir(parents=True, exist_ok=True)
        with open(self._image, "wb") as image:
            os.posix_fallocate(image.fileno(), 0, IMAGE_BYTES)
        try:
            _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0", str(self._image))
            self._device = _run("losetup", "--find", "--show", str(self._image)).strip()
            self.mount()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_mounted:
            # Lazily, if a straggler still holds a file: the next line must not fail for it.
            if _libc.umount2(os.fsencode(self.mount_point), 0) != 0:
                _libc.umount2(os.fsencode(self.mount_point), _MNT_DETACH)
            self._is_mounted = False
        if self._device:
            subprocess.run(["losetup", "--detach", self._device], check=False)
            self._device = ""
        self._image.unlink(missing_ok=True)

    def mount(self) -> None:
        self._check(
            _libc.mount(
                self._device.encode(), os.fsencode(self.mount_point), b"ext4", 0, b"errors=continue"
            ),
            "mount",
        )
        self._is_mounted = True

    def unmount(self) -> None:
        self._check(_libc.umount2(os.fsencode(self.mount_point), 0), "umount")
        self._is_mounted = False

    def after_cut(self) -> None:
        """The machine comes back: the journal is replayed, the cache is empty."""
        self.unmount()
        self.mount()

    def fsck(self) -> str:
        """What fsck has to say of the unmounted image; empty when it is clean."""
        done = subprocess.run(
            ["e2fsck", "-fn", self._device], capture_output=True, text=True, check=False
        )
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def _check(self, result: int, what: str) -> None:
        if result != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}", str(self.mount_point))


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
