"""Where `penstock features apply` reads a definition: JSON, or declarations in Python.

Python is the user's own code: it runs with the rights of the command. It is only run when a file
ends in .py, or when a module is named. Everything else is read as JSON.
"""

from __future__ import annotations

import importlib
import os
import runpy
import sys
import traceback
from collections.abc import Iterable
from typing import Any, Final

from penstock.errors import InvalidArgument, PenstockError

_BYTES_MAX: Final = 16 << 20


def nodes_of(source: str) -> list[Any]:
    """What to register: JSON texts, definitions, declared events and tables."""
    if source == "-":
        return [_json(sys.stdin.buffer.read(_BYTES_MAX + 1), "stdin")]
    if source.endswith(".py"):
        return _declared(_run(source).items(), source)
    module, colon, attribute = source.partition(":")
    if colon and not os.path.exists(source):
        return [_named(module, attribute)]
    return [_json(_read(source), source)]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}") from None


def _json(text: bytes, name: str) -> bytes:
    if len(text) > _BYTES_MAX:
        raise InvalidArgument(f"{name} is too long: expected at most {_BYTES_MAX} bytes")
    if not text.lstrip().startswith(b"{"):
        raise InvalidArgument(
            f"{name} is no definition: expected a JSON object with events, derived and tables, a "
            "file that ends in .py, or module:attribute"
        )
    return text


def _run(path: str) -> dict[str, Any]:
    if not os.path.isfile(path):
        raise InvalidArgument(f"cannot read {path}: no such file")
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        return runpy.run_path(path, run_name="penstock_features")
    except PenstockError as error:
        error.args = (f"{path}{_line(error, path)}: {error}",)
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise InvalidArgument(f"{path}{_line(error, path)}: {what}") from error
    finally:
        del sys.path[0]


def _line(error: BaseException, path: str) -> str:
    """Where in the file an exception comes from."""
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path
    ]
    return f", line {frames[-1].lineno}" if frames else ""


def _named(module: str, attribute: str) -> Any:
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module)
        for name in attribute.split("."):
            found = getattr(found, name)
    except PenstockError:
        raise
    except Exception as error:
        raise InvalidArgument(
            f"cannot import {module}:{attribute}: {type(error).__name__}: {error}"
        ) from error
    finally:
        del sys.path[0]
    if not hasattr(found, "to_json") or isinstance(found, type):
        raise InvalidArgument(
            f"{module}:{attribute} is a {type(found).__name__}: expected a definition, or what "
            "`features.event` or `features.table` made"
        )
    return found


def _declared(names: Iterable[tuple[str, Any]], path: str) -> list[Any]:
    from penstock.features.definition import Definition
    from penstock.features.event_chain import DeclaredEvent, DeclaredTable

    kinds = (Definition, DeclaredEvent, DeclaredTable)
    found = [
        value for name, value in names if isinstance(value, kinds) and not name.startswith("_")
    ]
    if not found:
        raise InvalidArgument(
            f"{path} declares no features: expected events and tables at the top of the file"
        )
    return found
