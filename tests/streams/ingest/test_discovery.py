"""Tables WITH (discover = true): a sensor that nobody inserted is there from its first reading on."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import StreamColumn, Table, TableOptions
from penstock.clock import WallClock
from penstock.settings import Settings
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.ingest.readings import Discovery
from penstock.streams.log.stream_log import StreamLog
from penstock.types import DOUBLE, INT, TEXT, Field

COLUMNS = (Field("site", TEXT), Field("number", INT), Field("floor", INT), Field("maker", TEXT))
STREAM = StreamColumn("reading", (Field("ppm", DOUBLE),))


class Bench:
    """A catalog, a log and an ingest that discovers."""

    def __init__(self, folder: Path, most: int = 1000, columns: tuple[Field, ...] = COLUMNS) -> None:
        clock = WallClock()
        self.log = StreamLog(folder, Settings(), clock)
        self.catalog = Catalog(folder / "journal", self.log.still, clock)
        discovery = Discovery(self.catalog.insert_rows, most)
        self.ingest = Ingest(self.log, lambda: self.catalog.state, clock, Settings(), discovery)
        self.table = self.catalog.create_table(
            Table(0, "probes", columns, ("site", "number"), STREAM, TableOptions(discover=True))
        )

    def push(self, data: Any, key: str | None = None) -> Any:
        return self.ingest.push("probes", data, key).result(10)

    def sensors(self) -> list[tuple[Any, ...]]:
        rows = self.catalog.state.rows(self.table.id).current()
        return sorted(tuple(row.values())[: len(COLUMNS) + 2] for row in rows.to_pylist())


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.log.close()
    made.catalog.close()


def reading(site: Any, number: Any, **more: Any) -> dict[str, Any]:
    return {"site": site, "number": number, "ppm": 1.0, **more}


def test_a_first_reading_brings_its_sensor_with_what_it_says_about_it(bench: Bench) -> None:
    receipt = bench.push([reading("north", 1, floor=2, reading="plant/north/1"), reading("north", 1), reading("s", 2)])
    assert (receipt.accepted, receipt.refused) == (3, ())
    assert bench.sensors() == [("north", 1, 2, None, 0, "plant/north/1"), ("s", 2, None, None, 1, None)]
    assert bench.ingest.counters("probes")["discovered"] == 2


def test_what_a_known_sensor_says_about_itself_changes_nothing(bench: Bench) -> None:
    bench.push([reading("north", 1, floor=2)])
    bench.catalog.update_rows("probes", {0: ("north", 1, 3, "ACME", None)})
    assert bench.push([reading("north", 1, floor=2, maker="other")]).accepted == 1
    assert bench.sensors() == [("north", 1, 3, "ACME", 0, None)]


def test_arrow_and_text_columns_are_cast_to_the_key_first(bench: Bench) -> None:
    texts = pa.table(
        {"site": ["a", "a", "b"], "number": ["1", "1", "x"], "ppm": ["1", "2", "3"], "floor": ["4", None, "5"]}
    )
    receipt = bench.push(texts)
    assert receipt.accepted == 2
    assert [(r.index, r.condition) for r in receipt.refused] == [(2, "invalid_value")]
    assert bench.sensors() == [("a", 1, 4, None, 0, None)]


def test_a_key_that_is_not_whole_discovers_nothing(bench: Bench) -> None:
    receipt = bench.push([reading("a", None), {"site": "a", "ppm": 1.0}, reading(None, 2), reading("a", 3)])
    assert [(r.index, r.condition) for r in receipt.refused] == [
        (0, "sensor_not_found"),
        (1, "missing_field"),
        (2, "sensor_not_found"),
    ]
    assert [sensor[:2] for sensor in bench.sensors()] == [("a", 3)]


def test_a_column_that_must_not_be_null_keeps_a_sensor_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path, columns=(*COLUMNS[:3], Field("maker", TEXT, required=True)))
    receipt = bench.push([reading("a", 1), reading("a", 2, maker="ACME"), reading("a", 1)])
    assert [(r.index, r.condition) for r in receipt.refused] == [(0, "not_null_violation"), (2, "not_null_violation")]
    assert receipt.accepted == 1
    bench.log.close()


def test_no_more_sensors_than_the_limit_and_known_ones_go_on(tmp_path: Path) -> None:
    bench = Bench(tmp_path, most=3)
    receipt = bench.push([reading("a", n) for n in range(5)])
    assert (receipt.accepted, {r.condition for r in receipt.refused}) == (3, {"limit_reached"})
    assert "discover_max_sensors" in receipt.refused[0].message
    assert bench.push([reading("a", 0)]).accepted == 1
    bench.log.close()


def test_a_repeat_with_the_same_key_discovers_nothing_new(bench: Bench) -> None:
    first = bench.push([reading("a", 1)], key="once")
    assert bench.push([reading("a", 1)], key="once") == first
    assert len(bench.sensors()) == 1


def test_many_senders_at_once_discover_each_sensor_once(bench: Bench) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    numbers = random.Random(seed)
    batches = [[reading("a", numbers.randrange(40)) for _ in range(30)] for _ in range(24)]
    accepted: list[int] = []

    def send(mine: list[list[dict[str, Any]]]) -> None:
        accepted.extend(bench.push(batch).accepted for batch in mine)

    threads = [threading.Thread(target=send, args=(batches[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(accepted) == 24 * 30
    expected = {row["number"] for batch in batches for row in batch}
    assert [sensor[1] for sensor in bench.sensors()] == sorted(expected)


def test_a_table_that_does_not_discover_still_says_what_it_does_not_know(bench: Bench) -> None:
    bench.catalog.create_table(Table(0, "closed", COLUMNS, ("site", "number"), STREAM))
    receipt = bench.ingest.push("closed", [reading("a", 1), reading("a", 1, floor=3)]).result(10)
    assert [r.condition for r in receipt.refused] == ["sensor_not_found", "unknown_field"]
