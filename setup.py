"""Builds the compiled form of the kernel where Cython and a C compiler are found.

Everything else about the package is in pyproject.toml. Without the extension the interpreter runs
the same source, so nothing here may fail an installation.
"""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup

SOURCE = Path("src/penstock/codec/kernel_source")
BUILD = Path("build/kernel")
JOINED = BUILD / "penstock/codec/_kernel.py"

# Files of SOURCE that hold nothing but numbers: C constants in the compiled form.
CONSTANTS = ("layout", "statuses", "characters", "thresholds")

# The other files of SOURCE. Each uses only names of files before it.
PARTS = (
    "memory",
    "checksum",
    "frame",
    "frame_table",
    "frame_encoding",
    "scanning",
    "json_record",
    "json_pages",
    "columns",
    "lookup",
    "readdressing",
    "segment_index",
    "json_text",
    "packed_records",
    "record_spans",
    "masked_messages",
)


def joined_source() -> str:
    """The parts as one module. Their imports of each other are left out."""
    opening = "from __future__ import annotations\n\nimport cython\n\nCOMPILED = True\n"
    return "\n".join([opening, *map(code_of, PARTS)])


def code_of(part: str) -> str:
    text = (SOURCE / f"{part}.py").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.ImportFrom):
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines)


def joined_declarations() -> str:
    """The constants as C enumerations, and the .pxd files of the parts as one."""
    files = [SOURCE / f"{part}.pxd" for part in PARTS]
    declarations = [file.read_text(encoding="utf-8") for file in files if file.exists()]
    return "\n\n".join([*map(enumeration_of, CONSTANTS), *declarations])


def enumeration_of(part: str) -> str:
    names = runpy.run_path(str(SOURCE / f"{part}.py"))
    numbers = [f"    {name} = {value}\n" for name, value in names.items() if name.isupper()]
    return "cdef enum:\n" + "".join(numbers)


def write_if_changed(path: Path, text: str) -> None:
    """An unchanged file keeps its time, so that it is not compiled again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def extensions() -> list[Extension]:
    """The kernel, or nothing when Cython is missing. A missing compiler leaves it out too."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        sys.stderr.write("penstock: Cython not found, the kernel will run interpreted\n")
        return []
    write_if_changed(JOINED, joined_source())
    write_if_changed(JOINED.with_suffix(".pxd"), joined_declarations())
    kernel = Extension(
        "penstock.codec._kernel",
        [str(JOINED)],
        extra_compile_args=[] if sys.platform == "win32" else ["-O3"],
    )
    directives = {
        "language_level": 3,
        "boundscheck": False,
        "wraparound": False,
        "cdivision": True,
    }
    built: list[Extension] = cythonize(
        [kernel], compiler_directives=directives, include_path=[str(BUILD)]
    )
    for extension in built:
        extension.optional = True  # Cython makes new ones and forgets it; a failure only warns
    return built


if __name__ == "__main__":
    setup(ext_modules=extensions())
