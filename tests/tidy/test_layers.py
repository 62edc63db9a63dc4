"""Who may import whom: the table, and a walk over every import in src."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
PACKAGE = SRC / "penstock"

# Everyone may import these; they import only each other.
GROUND = {
    "append_options",
    "types",
    "entries",
    "schema_types",
    "errors",
    "atomic_steps",
    "clock",
    "forks",
    "limits",
    "config",
    "metrics",
    "projection_types",
    "feature_document",
    "feature_types",
    "verb_keywords",
}

# Package -> what it may import besides itself and the ground. A dotted name allows that part alone.
MAY_IMPORT: dict[str, set[str]] = {
    "codec": set(),
    "wire": {"codec"},
    "storage": {"codec"},
    "topics": set(),
    "runtime": set(),
    "directory": {"codec", "storage", "topics"},
    "engine": {
        "codec",
        "directory",
        "storage",
        "topics",
        "runtime",
        "projections",
        "features.store",  # which is opened with the log
    },
    "projections": {"codec.checksum", "codec.columns", "storage.atomic", "storage.fs"},
    # Pure: definitions, and folds of columns into the state of features.
    "features": {
        "projections",
        "codec.columns",
        "codec.kernel",
        "codec.kernel_source.cython_shim",
    },
    "client": {"wire", "codec.columns"},
    "sender": {"client", "storage.fs", "storage.atomic", "wire"},
    # It reads data directories and never opens a log. Its sink is a sender without a spool: Spark
    # keeps what is to be sent again. Its tasks fold features with the code that folds them online,
    # so that the values are equal, and save the state in the same file.
    "spark": {
        "client",
        "codec",
        "directory",
        "features",
        "projections.checkpoint",
        "projections.state_folder",
        "sender",
        "storage",
        "topics",
        "wire",
    },
    # It reads the log through Spark, and looks at its heads and floors by itself.
    "lake": {"client", "codec", "directory", "spark", "storage", "topics"},
    # What a caller may name and configure is checked where it comes in.
    "server": {
        "engine",
        "wire",
        "projections",
        "runtime",
        "topics.idempotency",
        "topics.validation",
        "features.store",  # by name: it is opened with the log
        "features.event_push",  # a push in two halves
    },
    # An adapter is a handler like those of the server: it takes a request, its connection and its
    # key, and gives the service checked batches. The seam has all it may use.
    "compat": {"wire", "server.adapters"},
}
LEAVES = {"cli", "testing"}  # they may import everything; nobody imports them
for leaf in LEAVES:
    MAY_IMPORT[leaf] = set(MAY_IMPORT) - LEAVES

# Package -> modules of others it must not know.
MUST_NOT_KNOW: dict[str, set[str]] = {
    "codec": {"asyncio", "mmap", "socket", "threading", "time"},
    "wire": {"asyncio", "mmap", "socket", "threading", "time"},
    "topics": {"asyncio", "mmap", "os", "pathlib", "socket", "threading", "time"},
    "features": {"asyncio", "mmap", "os", "pathlib", "socket", "time"},
    "storage": {"asyncio", "socket"},
    "directory": {"asyncio", "http", "socket"},
    "engine": {"asyncio", "http", "socket"},
}
# Module -> the packages that may import it.
ONLY_IN: dict[str, tuple[str, ...]] = {
    "pyspark": ("spark", "lake"),
    "numpy": ("features", "spark"),
    "benchmarks": (),  # it lies beside src and is not installed
}

MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Each imported module by its full name, with its line.

    `from x import y` counts as x.y when y is a module. A leading dot stands for the package the
    file lies in, in a module and in an `__init__` alike.
    """
    here = path.parent.relative_to(SRC).parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [*here[: len(here) - node.level + 1]] if node.level else []
            base += node.module.split(".") if node.module else []
            for alias in node.names:
                full = [*base, alias.name]
                yield node.lineno, ".".join(full if is_module(full) else base)


def is_module(parts: list[str]) -> bool:
    place = SRC.joinpath(*parts)
    return place.is_dir() or any(place.with_suffix(end).exists() for end in (".py", ".pyi"))


def home_of(path: Path) -> str:
    """The row of the table a file belongs to: its package, or its own name at the top."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def is_within(name: str, allowed: str) -> bool:
    return name == allowed or name.startswith(allowed + ".")


def complaint(home: str, imported: str) -> str | None:
    """Why a file of `home` may not import this module, or None."""
    root, _, inner = imported.partition(".")
    if root != "penstock":
        if any(is_within(imported, name) for name in MUST_NOT_KNOW.get(home, ())):
            return f"{home} must not know {imported}"
        if root in ONLY_IN and home not in ONLY_IN[root]:
            return f"only {' and '.join(ONLY_IN[root]) or 'no package'} may import {root}"
        return None
    if not inner:
        return "imports the package root; name the module instead"
    top = inner.partition(".")[0]
    if top == home or top in GROUND:
        return None
    if home in GROUND:
        return f"the ground knows nothing above it, not {inner}"
    if not any(is_within(inner, allowed) for allowed in MAY_IMPORT[home]):
        return f"{home} may not import {inner}"
    return None


def test_every_package_has_a_row_in_the_table() -> None:
    homes = {home_of(path) for path in MODULES}

    unknown = homes - set(MAY_IMPORT) - GROUND

    assert not unknown, f"add to the table in {Path(__file__).name}: {sorted(unknown)}"


def test_a_module_imports_only_what_its_row_allows() -> None:
    complaints = [
        f"{path.relative_to(PACKAGE)}:{line}: {why}"
        for path in MODULES
        for line, name in imports_of(path)
        if (why := complaint(home_of(path), name))
    ]

    assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    ("home", "imported"),
    [
        ("codec", "penstock"),
        ("codec", "penstock.storage.fs"),
        ("errors", "penstock.codec"),
        ("topics", "penstock.storage.wal.reader"),
        ("sender", "penstock.storage.segments"),
        ("engine", "penstock.cli.main"),
        ("directory", "penstock.engine.journal"),
        ("spark", "penstock.engine.engine"),
        ("lake", "penstock.engine.core"),
        ("compat", "penstock.server.service"),
        ("cli", "penstock.testing.fs"),
        ("engine", "asyncio"),
        ("topics", "os.path"),
        ("engine", "pyspark.sql"),
        ("cli", "benchmarks.log"),
    ],
)
def test_the_table_forbids(home: str, imported: str) -> None:
    assert complaint(home, imported)


@pytest.mark.parametrize(
    ("home", "imported"),
    [
        ("codec", "penstock.codec.frame"),
        ("codec", "penstock.limits"),
        ("types", "penstock.errors"),
        ("sender", "penstock.storage.fs"),
        ("cli", "penstock.engine"),
        ("spark", "pyspark.sql"),
        ("storage", "osmosis"),
    ],
)
def test_the_table_allows(home: str, imported: str) -> None:
    assert complaint(home, imported) is None
