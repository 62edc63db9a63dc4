"""Builds the compiled form of the kernel where Cython and a C compiler are found.

Everything else about the package is in pyproject.toml. Without the extension the same source runs
interpreted, so nothing here may fail an installation.
"""

from __future__ import annotations

import sys

from setuptools import Extension, setup

SOURCE = "src/penstock/codec/_kernel.py"


def extensions() -> list[Extension]:
    """The kernel, or nothing when Cython is missing. A missing compiler leaves it out too."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        sys.stderr.write("penstock: Cython not found, the kernel will run interpreted\n")
        return []
    kernel = Extension(
        "penstock.codec._kernel",
        [SOURCE],
        extra_compile_args=[] if sys.platform == "win32" else ["-O3"],
    )
    directives = {
        "language_level": 3,
        "boundscheck": False,
        "wraparound": False,
        "cdivision": True,
    }
    built: list[Extension] = cythonize(
        [kernel], compiler_directives=directives, include_path=["src"]
    )
    for extension in built:
        extension.optional = True  # Cython makes new ones and forgets it; a failure only warns
    return built


setup(ext_modules=extensions())
