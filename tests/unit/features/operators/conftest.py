"""Every test of an operator runs on both forms of the fold kernel."""

from __future__ import annotations

import pytest

from penstock.features import fold_kernel
from tests.support.operators import compiled_kernel


@pytest.fixture(params=["interpreted", "compiled"], autouse=True)
def kernel_form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One form, then the other."""
    is_pure = request.param == "interpreted"
    form = fold_kernel.load(pure=True) if is_pure else compiled_kernel()
    monkeypatch.setattr(fold_kernel, "chosen", form)
