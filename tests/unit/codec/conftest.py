"""Both forms of the kernel, side by side."""

from __future__ import annotations

from types import ModuleType

import pytest

from penstock.codec import kernel as chooser
from tests.support import requirements


def compiled_kernel() -> ModuleType:
    try:
        return chooser.load(pure=False)
    except ImportError as error:
        requirements.lacking(f"the compiled kernel ({error})", "install a C compiler, `make setup`")


@pytest.fixture(params=["interpreted", "compiled"], scope="session")
def kernel(request: pytest.FixtureRequest) -> ModuleType:
    """One form, then the other."""
    return chooser.load(pure=True) if request.param == "interpreted" else compiled_kernel()


@pytest.fixture(scope="session")
def forms() -> tuple[ModuleType, ModuleType]:
    """(interpreted, compiled), for tests that hold them against each other."""
    return chooser.load(pure=True), compiled_kernel()
