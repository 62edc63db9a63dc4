"""Builds the compiled form of the two kernels where Cython and a C compiler are found.

Everything else about the package is in pyproject.toml. Without the extension the interpreter runs
the same source, so nothing here may fail an installation.
"""

from __future__ import annotations

import ast
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path

from setuptools import Extension, setup

BUILD = Path("build/kernel")


@dataclass(frozen=True)
class Kernel:
    """One extension module, and the package that is joined into it."""

    module: str
    source: Path
    constants: tuple[str, ...]  # files that hold nothing but numbers: C constants when compiled
    parts: tuple[str, ...]  # the other files; each uses only names of files before it
    directives: dict[str, bool]  # of Cython, beside those of all

    @property
    def joined(self) -> Path:
        return BUILD / f"{self.module.replace('.', '/')}.py"


CODEC_PARTS = (
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
    "element_spans",
    "masked_messages",
    "json_fields",
)

# It checks every length by itself, so Cython need not.
CODEC = Kernel(
    "penstock.codec._kernel",
    Path("src/penstock/codec/kernel_source"),
    ("layout", "statuses", "characters", "thresholds", "field_types"),
    CODEC_PARTS,
    {"boundscheck": False, "wraparound": False, "cdivision": True},
)

FOLD_PARTS = (
    "c_types",
    "scalar_folds",
    "list_folds",
    "chains",
    "baseline_folds",
    "category_folds",
    "decay_folds",
    "geo_folds",
    "histogram_folds",
    "trend_folds",
    "velocity_folds",
    "key_table",
    "cell_table",
    "row_blocks",
    "row_tables",
    "distinct_folds",
    "counting_folds",
    "sample_folds",
)

# Its rows may come from a damaged file: an index beyond an array raises IndexError, and a division
# by zero ZeroDivisionError, as in the interpreted form.
FOLD = Kernel(
    "penstock.features._fold_kernel",
    Path("src/penstock/features/kernel_source"),
    ("row_shapes",),
    FOLD_PARTS,
    {"boundscheck": True, "wraparound": False, "cdivision": False},
)

KERNELS = (CODEC, FOLD)

DIRECTIVES = {"language_level": 3, "show_performance_hints": False}

# Without contraction: a fused multiply-add would round once where the interpreter rounds twice.
# Debug information would be three quarters of the extension.
COMPILE_ARGUMENTS = [] if sys.platform == "win32" else ["-O3", "-g0", "-ffp-contract=off"]


def joined_source(kernel: Kernel) -> str:
    """The parts as one module. Their imports of each other are left out."""
    opening = "from __future__ import annotations\n\nimport cython\n\nCOMPILED = True\n"
    return "\n".join([opening, *(code_of(kernel.source / f"{part}.py") for part in kernel.parts)])


def code_of(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.ImportFrom):
            del lines[node.lineno - 1 : node.end_lineno]
    return "".join(lines)


def joined_declarations(kernel: Kernel) -> str:
    """The constants as C enumerations, and the .pxd files of the parts as one."""
    files = [kernel.source / f"{part}.pxd" for part in kernel.parts]
    declarations = [file.read_text(encoding="utf-8") for file in files if file.exists()]
    constants = [enumeration_of(kernel.source / f"{part}.py") for part in kernel.constants]
    return "\n\n".join([*constants, *declarations])


def enumeration_of(path: Path) -> str:
    names = runpy.run_path(str(path))
    numbers = [f"    {name} = {value}\n" for name, value in names.items() if name.isupper()]
    return "cdef enum:\n" + "".join(numbers)


def write_if_changed(path: Path, text: str) -> None:
    """An unchanged file keeps its time, so that it is not compiled again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def extensions() -> list[Extension]:
    """The kernels, or nothing when Cython is missing. A missing compiler leaves them out too."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        sys.stderr.write("penstock: Cython not found, the kernels will run interpreted\n")
        return []
    built: list[Extension] = []
    for kernel in KERNELS:
        write_if_changed(kernel.joined, joined_source(kernel))
        write_if_changed(kernel.joined.with_suffix(".pxd"), joined_declarations(kernel))
        extension = Extension(
            kernel.module, [str(kernel.joined)], extra_compile_args=COMPILE_ARGUMENTS
        )
        built += cythonize(
            [extension],
            compiler_directives={**DIRECTIVES, **kernel.directives},
            include_path=[str(BUILD)],
        )
    for extension in built:
        extension.optional = True  # Cython makes new ones and forgets it; a failure only warns
    return built


if __name__ == "__main__":
    setup(ext_modules=extensions())
