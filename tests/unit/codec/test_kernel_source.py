"""The kernel's source: all files are joined, and the constants are those of the formats."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from types import ModuleType

from penstock.codec import projection_options
from penstock.codec.kernel_source import layout, statuses

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src/penstock/codec/kernel_source"
INTERPRETED_ONLY = {"__init__", "cython_shim", "interpreted"}
ROW = re.compile(r"^\| (\d+) \| [^|]+ \| `(\w+)` \|", re.MULTILINE)


def build_script() -> dict[str, object]:
    """The names of setup.py, which builds nothing when it is not the main program."""
    return runpy.run_path(str(ROOT / "setup.py"))


def test_every_file_of_the_source_is_joined() -> None:
    script = build_script()

    joined = {*script["CODEC"].constants, *script["CODEC"].parts}  # type: ignore[attr-defined]

    assert joined == {path.stem for path in SOURCE.glob("*.py")} - INTERPRETED_ONLY
    assert {path.stem for path in SOURCE.glob("*.pxd")} <= joined


def test_the_joined_source_has_every_function_once() -> None:
    script = build_script()

    source = script["joined_source"](script["CODEC"])  # type: ignore[operator]
    names = re.findall(r"^(?:    )?(?:def|class) (\w+)\(", source, re.MULTILINE)

    of_methods = {"__init__", "__dealloc__", "as_bytes", "close_run"}
    functions = [name for name in names if name not in of_methods]
    assert len(functions) == len(set(functions))


def test_both_forms_have_the_same_functions(forms: tuple[ModuleType, ModuleType]) -> None:
    interpreted, compiled = forms

    assert all(hasattr(compiled, name) for name in interpreted.__all__)


def test_header_offsets_are_those_of_the_format_page() -> None:
    page = (ROOT / "docs/format/frame.md").read_text(encoding="utf-8")

    offsets = {field: int(offset) for offset, field in ROW.findall(page)}

    assert offsets.pop("node") == layout.FRAME_HEADER_BYTES
    assert offsets.pop("frame_len") == layout.FRAME_LEN
    assert len(offsets) == 8
    for field, offset in offsets.items():
        assert getattr(layout, f"FRAME_{field.upper()}") == offset


def test_options_of_a_projection_have_the_same_bits_everywhere() -> None:
    for name in ("TAG", "META", "DATA"):
        assert getattr(statuses, f"WITH_{name}") == getattr(projection_options, name)
    for name in ("DOLLAR", "VERIFY", "ARRAY", "FRAMES"):
        assert getattr(statuses, name) == getattr(projection_options, name)
