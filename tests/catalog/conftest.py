"""A catalog over a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.catalog import journal
from tests.catalog.bench import CatalogBench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[CatalogBench]:
    bench = CatalogBench(tmp_path)
    yield bench
    bench.close()


@pytest.fixture(scope="module")
def unsynced() -> Iterator[None]:
    """For tests that write hundreds of journals and pull no plug."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal.os, "fsync", lambda descriptor: None)
        yield
