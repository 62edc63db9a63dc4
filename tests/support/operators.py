"""What the tests of operators share."""

from __future__ import annotations

from types import ModuleType

from penstock.features import fold_kernel
from tests.support import requirements


def compiled_kernel() -> ModuleType:
    try:
        return fold_kernel.load(pure=False)
    except ImportError as error:
        requirements.lacking(f"the compiled kernel ({error})", "install a C compiler, `make setup`")
