"""A log is two objects: `Log` with the public verbs, and its core for servers and tools. What is
behind the core and behind a topic's handle belongs to the engine."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.handle import Handle

PACKAGE = Path(__file__).parents[2] / "src" / "penstock"
ENGINE = PACKAGE / "engine" / "engine.py"
LINES_MAX = 300  # of engine.py
VERB_LINES_MAX = 12
METHODS_MAX = 30

# Class -> why it has more public methods.
MANY_METHODS = {
    "AsyncClient": "the verbs of the public API",
    "Client": "generated from AsyncClient",
    "Log": "the verbs of the public API",
}

# Packages that get a log, a core or a handle from the engine.
USERS = ("cli", "compat", "lake", "sender", "server", "spark", "testing")
LOGS = {"log", "_log", "core", "_core"}
HANDLES = {"handle", "_handle", "find"}  # names of variables, attributes and calls
OF_CORE = {"parts"}
OF_CATALOGUE = {"journal", "settle"}
# What anyone may use of a handle; all else of it is the engine's.
OF_HANDLE = {
    "config",
    "epoch",
    "extent",
    "head",
    "id",
    "is_behind",
    "is_dropped",
    "is_short_of_seqs",
    "listen",
    "name",
    "push",
    "queue_depth",
    "shard_group",
    "sync_group",
    "unlisten",
    "wake",
}
INSIDE_HANDLE = {name for name in dir(Handle) if not name.startswith("__")} - OF_HANDLE


def last_name(node: ast.expr) -> str:
    """`a.b` and `a.b(c)` end in b."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def insides(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What a module reads behind a log, a core, a catalogue or a handle."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = last_name(node.value)
            hidden = (
                OF_CORE
                if owner in LOGS
                else INSIDE_HANDLE
                if owner in HANDLES
                else OF_CATALOGUE
                if owner == "catalogue"
                else set()
            )
            if node.attr in hidden:
                yield node.lineno, f"{owner}.{node.attr}"


def lines_of(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def classes(tree: ast.AST) -> Iterator[tuple[str, list[ast.FunctionDef | ast.AsyncFunctionDef]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
            yield node.name, [one for one in node.body if isinstance(one, kinds)]


def crowded(tree: ast.AST) -> Iterator[str]:
    for name, methods in classes(tree):
        if sum(not method.name.startswith("_") for method in methods) > METHODS_MAX:
            yield name


def complaints(tree: ast.Module) -> Iterator[str]:
    """Why a class of this module is not a plain list of short public verbs."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.bases:
            yield f"{node.name} inherits"
    for name, methods in classes(tree):
        for method in methods:
            if method.name.startswith("_") and not method.name.startswith("__"):
                yield f"{name}.{method.name} is no public verb"
            body = method.body[1:] if ast.get_docstring(method) else method.body
            if body and max(lines_of(body[-1])) - body[0].lineno >= VERB_LINES_MAX:
                yield f"{name}.{method.name} is long"


def trees(*packages: str) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        inside = path.relative_to(PACKAGE)
        if not packages or inside.parts[0] in packages:
            yield inside, ast.parse(path.read_text(encoding="utf-8"))


def test_the_log_is_a_list_of_short_public_verbs() -> None:
    text = ENGINE.read_text(encoding="utf-8")

    assert not list(complaints(ast.parse(text))), "move it to engine/core.py or to its noun"
    assert len(text.splitlines()) < LINES_MAX


def test_only_the_engine_reads_what_is_behind_a_core_and_a_handle() -> None:
    found = [
        f"{inside}:{line}: {name}" for inside, tree in trees(*USERS) for line, name in insides(tree)
    ]

    assert not found, "use or add a method of LogCore or a property of Handle"


def test_a_class_with_many_methods_has_a_reason() -> None:
    found = {name for _, tree in trees() for name in crowded(tree)}

    assert found == set(MANY_METHODS), "find the second noun, or give (or drop) the reason"


# Each check can fail.


@pytest.mark.parametrize(
    "code",
    [
        "log.parts.shards",
        "self._core.parts",
        "service.core.parts",
        "with handle.lock: pass",
        "self._handle.topic.name",
        "service.handle(topic).topic",
        "catalogue.find(name).shard",
        "handle.next_seq",
        "core.catalogue.journal",
    ],
)
def test_a_look_inside_is_found(code: str) -> None:
    assert list(insides(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["self.parts", "append.topic", "handle.name", "log.core.queues", "fs.lock(path)"]
)
def test_other_names_are_not(code: str) -> None:
    assert not list(insides(ast.parse(code)))


LONG_VERB = "class Log:\n    def a(self):\n" + "        b()\n" * (VERB_LINES_MAX + 1)


@pytest.mark.parametrize(
    "code",
    ["class Log(Verbs):\n    x = 1", "class Log:\n    def _a(self):\n        pass", LONG_VERB],
    ids=["mixin", "private method", "long verb"],
)
def test_a_log_that_is_more_is_found(code: str) -> None:
    assert list(complaints(ast.parse(code)))


def test_a_crowded_class_is_found() -> None:
    methods = "".join(f"    def m{n}(self): ...\n" for n in range(METHODS_MAX + 1))

    assert list(crowded(ast.parse("class Big:\n" + methods))) == ["Big"]
