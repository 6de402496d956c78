"""What all tests share: asyncio is the event loop of anyio's tests, and the asker keeps a journal for who wants it."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.bridge.harness import Journal


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """For the asker's environment; modules with other wishes have one of their own."""
    return Journal(tmp_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What a test logs may hold half a character, which a report on its way from another process may not."""
    report = yield
    report.sections = [
        (title, text.encode("utf-8", "backslashreplace").decode("utf-8")) for title, text in report.sections
    ]
    return report
