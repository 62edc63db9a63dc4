"""Arguments that name a slot, or the folder of the slots."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.errors import InvalidArgument
from penstock.sender.slot_inspection import is_slot
from penstock.storage.fs import OsFilesystem

_NAMED_MAX = 10

Folder = Annotated[
    Path, typer.Argument(metavar="SF_DIR", show_default=False, help="The folder of the slots.")
]
SlotDir = Annotated[
    Path, typer.Argument(metavar="SLOT", show_default=False, help="SF_DIR/SENDER_ID.")
]


def slot_path(slot: Path) -> str:
    """The absolute path of a slot. Refuses other folders: commands would write to them."""
    _check_folder(slot)
    path = str(slot.resolve())
    if is_slot(OsFilesystem(), path):
        return path
    inside = [one.rpartition("/")[2] for one in _inside(slot)]
    if not inside:
        raise InvalidArgument(
            f"{slot} is not a slot: expected a folder SF_DIR/SENDER_ID that a sender has used"
        )
    names = ", ".join(inside[:_NAMED_MAX]) + (", …" if len(inside) > _NAMED_MAX else "")
    raise InvalidArgument(f"{slot} is an sf_dir, not a slot: expected one of its slots: {names}")


def slot_paths(folder: Path) -> list[str]:
    """The slots in a folder, including those that cannot be read."""
    _check_folder(folder)
    if is_slot(OsFilesystem(), str(folder)):
        raise InvalidArgument(
            f"{folder} is a slot, not a folder of slots: list {folder.resolve().parent}, or use "
            "`penstock spool inspect`"
        )
    return _inside(folder)


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise InvalidArgument(f"{folder} is not a folder")


def _inside(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.iterdir()):
        try:
            if path.is_dir() and is_slot(OsFilesystem(), str(path)):
                found.append(str(path.resolve()))
        except OSError:  # `list` shows the error in its row
            found.append(str(path.resolve()))
    return found
