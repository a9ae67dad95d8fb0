"""One browser for the tests of a file, a new visitor for each test. The file says which server is visited.

Visitors share what the browser has loaded: the scripts of a page take it most of the time of a visit.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext

from tests.browser.browser import Visitor, browsing, first_visit, profile


@pytest.fixture(scope="module")
def context() -> Iterator[BrowserContext]:
    with browsing() as browser, profile(browser) as found:
        yield found


@pytest.fixture
def visitor(context: BrowserContext, url: str) -> Iterator[Visitor]:
    with first_visit(context, url) as found:
        yield found
