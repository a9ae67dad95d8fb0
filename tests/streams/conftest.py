"""Benches that are closed when a test is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.streams.doubles import make_table
from tests.support.ingest_bench import Bench, Make


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    benches: list[Bench] = []

    def build(**options: Any) -> Bench:
        benches.append(Bench(tmp_path, make_table(**options)))
        return benches[-1]

    yield build
    for bench in benches:
        bench.log.close()
