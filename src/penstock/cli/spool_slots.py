"""Which folder is meant: a slot, or the folder that slots lie in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.errors import InvalidArgument
from penstock.sender.view import is_slot
from penstock.storage.fs import OsFilesystem

_NAMED_MAX = 10

Folder = Annotated[
    Path, typer.Argument(metavar="SF_DIR", show_default=False, help="The folder of the slots.")
]
SlotDir = Annotated[
    Path, typer.Argument(metavar="SLOT", show_default=False, help="SF_DIR/SENDER_ID.")
]


def slot_path(slot: Path) -> str:
    """The absolute path of a slot. Anything else is refused: it would look empty, and be written
    to."""
    _check_folder(slot)
    path = str(slot.resolve())
    if is_slot(OsFilesystem(), path):
        return path
    inside = [one.rpartition("/")[2] for one in _inside(slot)]
    if not inside:
        raise InvalidArgument(f"{slot} is no slot, no sender was here: give SF_DIR/SENDER_ID")
    names = ", ".join(inside[:_NAMED_MAX]) + (", …" if len(inside) > _NAMED_MAX else "")
    raise InvalidArgument(f"{slot} is an sf_dir and no slot; its slots are: {names}")


def slot_paths(folder: Path) -> list[str]:
    """The slots in a folder, with those of which nothing can be told."""
    _check_folder(folder)
    if is_slot(OsFilesystem(), str(folder)):
        raise InvalidArgument(
            f"{folder} is a slot itself: list {folder.resolve().parent}, or inspect this one"
        )
    return _inside(folder)


def _check_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise InvalidArgument(f"{folder} is no folder")


def _inside(folder: Path) -> list[str]:
    found = []
    for path in sorted(folder.iterdir()):
        try:
            if path.is_dir() and is_slot(OsFilesystem(), str(path)):
                found.append(str(path.resolve()))
        except OSError:  # `list` tells of it in its row
            found.append(str(path.resolve()))
    return found
