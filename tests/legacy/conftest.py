"""Fixtures of the tests of `legacy`."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    """Both event loops that the bridge runs on."""
    return "asyncio" if request.param == "asyncio" else ("asyncio", {"use_uvloop": True})
