"""One browser for the tests of a file, a new visitor for each test. The file says which server is visited."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.console.browser import Visitor, browsing, visiting


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture
def visitor(browser: Browser, url: str) -> Iterator[Visitor]:
    with visiting(browser, url) as found:
        yield found
