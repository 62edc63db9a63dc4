"""The directory of one sender: its lock, its side files, dead letters and quarantine.

<sf_dir>/<sender_id>/
  .lock              held while a sender or a drainer has the slot open
  .ack-watermark     see `ack_watermark`
  sf-<number>.seg    see `segment`
  .failed            why drainers ignore the slot
  .last_error        the last temporary error of a drainer
  .redrive           held while dead letters are sent again
  dead-letter/       frames that the server rejected
  quarantine/        damaged bytes
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from penstock.errors import InvalidArgument, SlotInUse
from penstock.sender.segment import number_of
from penstock.storage.atomic import write_whole
from penstock.storage.fs import Buffer, DirectoryLock, Filesystem

LOCK_NAME: Final = ".lock"
FAILED_NAME: Final = ".failed"
LAST_ERROR_NAME: Final = ".last_error"
REDRIVE_NAME: Final = ".redrive"
DEAD_LETTER_NAME: Final = "dead-letter"
QUARANTINE_NAME: Final = "quarantine"
_TEXT_BYTES_MAX: Final = 64 * 1024
_SENDER_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_LETTER: Final = re.compile(r"([0-9]{20})-([0-9a-f]{32})\.json")
_WHOLE: Final = re.compile(r"\.damaged~*$")


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the server rejected a frame."""

    category: str
    status: int
    message: str


class _DeadLetterNote(msgspec.Struct):
    """The note beside a dead letter; its number is in the file name."""

    category: str = "unknown"
    status: int = -1
    message: str = ""
    time_ms: int = 0


def check_sender_id(sender_id: str) -> None:
    if not _SENDER_ID.fullmatch(sender_id):
        raise InvalidArgument(
            f"invalid sender id {sender_id!r}: expected 1 to 128 letters, digits, _ and -"
        )


def orphans(
    fs: Filesystem,
    sf_dir: str,
    *,
    own_id: str,
    on_error: Callable[[str, OSError], None] | None = None,
) -> list[str]:
    """Ids of the other slots that have segments and are not marked as failed. A slot may be in use:
    its lock tells. `on_error` is called for directories that cannot be listed."""
    found = []
    for name in fs.list(sf_dir):
        if name == own_id or not _SENDER_ID.fullmatch(name):
            continue
        try:
            inside = fs.list(f"{sf_dir}/{name}")
        except NotADirectoryError:
            continue
        except OSError as error:
            if on_error is not None:
                on_error(name, error)
            continue
        if FAILED_NAME not in inside and any(number_of(entry) is not None for entry in inside):
            found.append(name)
    return found


class Slot:
    """A locked slot. `open` takes the lock, `release` releases it."""

    def __init__(self, fs: Filesystem, path: str, lock: DirectoryLock) -> None:
        self.fs = fs
        self.path = path
        self._lock = lock

    @classmethod
    def open(cls, fs: Filesystem, path: str) -> Slot:
        """Raises SlotInUse at once when another process has locked the slot."""
        fs.make_dirs(path)
        try:
            lock = fs.lock(f"{path}/{LOCK_NAME}")
        except BlockingIOError as error:
            holder = str(error.strerror or "")
            raise SlotInUse(path, pid=int(holder) if holder.isdecimal() else None) from None
        return cls(fs, path, lock)

    def release(self) -> None:
        self._lock.release()

    # Notes for drainers and operators.

    def failed(self) -> str | None:
        """Why drainers ignore the slot, or None."""
        return self._text(FAILED_NAME)

    def mark_failed(self, reason: str) -> None:
        self._write(self.path, FAILED_NAME, [reason.encode() + b"\n"])

    def clear_failed(self) -> None:
        self._remove(FAILED_NAME)

    def last_error(self) -> str | None:
        return self._text(LAST_ERROR_NAME)

    def record_error(self, text: str | None) -> None:
        """Record the last temporary error; None removes it. An error of the write, as on a full
        disk, is ignored."""
        with contextlib.suppress(OSError):
            if text is None:
                self._remove(LAST_ERROR_NAME)
            else:
                self._write(self.path, LAST_ERROR_NAME, [text.encode() + b"\n"])

    # Dead letters.

    def write_dead_letter(
        self, fsn: int, incarnation: bytes, frame: bytes, rejection: Rejection, *, now_ms: int
    ) -> bool:
        """Write a rejected frame; durable on return. May be called again for the same frame.
        Returns whether it is new."""
        folder = f"{self.path}/{DEAD_LETTER_NAME}"
        self.fs.make_dirs(folder)
        name = f"{fsn:020d}-{incarnation.hex()}"
        is_new = not self.fs.exists(f"{folder}/{name}.json")
        self._write(folder, f"{name}.frame", [frame])
        note = {
            "fsn": fsn,
            "incarnation": incarnation.hex(),
            "category": rejection.category,
            "status": rejection.status,
            "message": rejection.message,
            "time_ms": now_ms,
        }
        # The note comes last, after the name of the frame is durable: where there is a note, the
        # frame is complete.
        self._write(folder, f"{name}.json", [msgspec.json.encode(note) + b"\n"])
        return is_new

    def count_dead_letters(self) -> tuple[int, int]:
        """The number of dead letters and the bytes of their frames."""
        folder = f"{self.path}/{DEAD_LETTER_NAME}"
        size = 0
        for name in self.fs.list(folder):
            if name.endswith(".frame"):
                with contextlib.suppress(FileNotFoundError):  # sent again meanwhile
                    size += self.fs.size(f"{folder}/{name}")
        return len(self._letters()), size

    def dead_letters(self) -> list[dict[str, Any]]:
        """The notes of the dead letters, in the order of their numbers. An unreadable note has the
        number of its file name and a message about the error."""
        return [self._note(found[0], found[1], found[2]) for found in self._letters()]

    def _letters(self) -> list[re.Match[str]]:
        names = self.fs.list(f"{self.path}/{DEAD_LETTER_NAME}")
        return [found for name in names if (found := _LETTER.fullmatch(name))]

    def _note(self, name: str, fsn: str, incarnation: str) -> dict[str, Any]:
        who = {"fsn": int(fsn), "incarnation": incarnation}
        try:
            note = msgspec.json.decode(
                self._read(f"{self.path}/{DEAD_LETTER_NAME}/{name}"), type=_DeadLetterNote
            )
        except (msgspec.DecodeError, OSError) as error:
            note = _DeadLetterNote(message=f"the note of this frame cannot be read: {error}")
        return who | msgspec.structs.asdict(note)

    def dead_letter(self, fsn: int, incarnation: bytes) -> bytes:
        """The bytes of a dead letter."""
        name = f"{fsn:020d}-{incarnation.hex()}.frame"
        return self._read(f"{self.path}/{DEAD_LETTER_NAME}/{name}")

    def remove_dead_letter(self, fsn: int, incarnation: bytes) -> None:
        """It was sent again. The note is removed first: a note implies a frame."""
        folder = f"{self.path}/{DEAD_LETTER_NAME}"
        for ending in ("json", "frame"):
            with contextlib.suppress(FileNotFoundError):
                self.fs.unlink(f"{folder}/{fsn:020d}-{incarnation.hex()}.{ending}")
            self.fs.sync_dir(folder)

    # Damage.

    def quarantine(self, name: str, data: bytes, report: dict[str, Any]) -> None:
        """Copy damaged bytes to the quarantine with a report. May be called again."""
        folder = f"{self.path}/{QUARANTINE_NAME}"
        self.fs.make_dirs(folder)
        if self.fs.exists(f"{folder}/{name}.json"):
            return
        self._write(folder, f"{name}.bytes", [data])
        self._write(folder, f"{name}.json", [msgspec.json.encode(report) + b"\n"])

    def quarantine_file(self, path: str) -> None:
        """Move a whole file to the quarantine, which needs no space. If the folder cannot be
        created, the file is renamed in its directory."""
        folder = f"{self.path}/{QUARANTINE_NAME}"
        try:
            self.fs.make_dirs(folder)
        except OSError:
            folder = self.path
        name = f"{path.rpartition('/')[2]}.damaged"
        while self.fs.exists(f"{folder}/{name}"):
            name += "~"
        self.fs.rename(path, f"{folder}/{name}")
        self.fs.sync_dir(folder)
        self.fs.sync_dir(self.path)

    def quarantined(self) -> list[dict[str, Any]]:
        """The reports of the quarantine, in the order of their names: damaged bytes and whole
        files, including files that were renamed in the slot's directory."""
        folder = f"{self.path}/{QUARANTINE_NAME}"
        names = self.fs.list(folder)
        found = [self._report(folder, name, names) for name in names]
        here = [name for name in self.fs.list(self.path) if _WHOLE.search(name)]
        found += [self._report(self.path, name, here) for name in here]
        return [one for one in found if one is not None]

    def _report(self, folder: str, name: str, names: list[str]) -> dict[str, Any] | None:
        if name.endswith(".json"):
            with contextlib.suppress(msgspec.DecodeError, OSError):
                return msgspec.json.decode(self._read(f"{folder}/{name}"), type=dict[str, Any])
            return {"file": name, "reason": "this report cannot be read"}
        if _WHOLE.search(name):
            size = self.fs.size(f"{folder}/{name}")
            return {
                "file": name,
                "offset": 0,
                "length": size,
                "reason": "the whole file was quarantined",
            }
        if name.endswith(".bytes") and f"{name.removesuffix('.bytes')}.json" not in names:
            return {"file": name, "reason": "these bytes have no report"}
        return None

    def _write(self, folder: str, name: str, parts: list[Buffer]) -> None:
        try:
            write_whole(self.fs, f"{folder}/{name}", parts)
            self.fs.sync_dir(folder)
        except OSError:
            with contextlib.suppress(OSError):
                self.fs.unlink(f"{folder}/{name}.tmp")
            raise

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.fs.unlink(f"{self.path}/{name}")

    def _text(self, name: str) -> str | None:
        if not self.fs.exists(f"{self.path}/{name}"):
            return None
        return (
            self._read(f"{self.path}/{name}")[:_TEXT_BYTES_MAX].decode("utf-8", "replace").strip()
        )

    def _read(self, path: str) -> bytes:
        file = self.fs.open(path)
        try:
            return file.read_at(0, file.size())
        finally:
            file.close()
