"""Ingest over the real catalog: the vid of a row is the one that was current at its place in the total order."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import StreamColumn, Table
from penstock.clock import WallClock
from penstock.settings import Settings
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_segments, slices
from penstock.streams.log.stream_log import StreamLog
from penstock.types import DOUBLE, INT, TEXT, Field
from tests.support.manual_clock import ManualClock

COLUMNS = (Field("sensor_id", INT), Field("location", TEXT))
STREAM = StreamColumn("reading", (Field("ppm", DOUBLE),))


def test_rows_before_and_after_an_update_carry_the_version_of_their_place(tmp_path: Path) -> None:
    clock = WallClock()
    log = StreamLog(tmp_path, Settings(), clock)
    catalog = Catalog(tmp_path / "journal", log.still, clock)
    ingest = Ingest(log, lambda: catalog.state, clock, Settings())
    table = catalog.create_table(Table(0, "probes", COLUMNS, ("sensor_id",), STREAM))
    catalog.insert_rows("probes", [(1, "north", "a"), (2, "south", "b")])
    stop = threading.Event()

    def push() -> None:
        while not stop.is_set():
            ingest.push("probes", [{"sensor_id": 1, "ppm": 1.0}]).result(60)

    threads = [threading.Thread(target=push) for _ in range(3)]
    for thread in threads:
        thread.start()
    changes: list[tuple[int, int]] = []  # (head at the entry, vid from then on)
    catalog.listeners.append(lambda entry: changes.append((entry.heads.get(table.id, 0), 2 + len(changes))))
    for i in range(20):
        catalog.update_rows("probes", {0: (1, f"north {i}", "a")})
    stop.set()
    for thread in threads:
        thread.join()
    log.close()
    pieces = slices(list_segments(log.folder, table.id), 0, 2**60)
    vids = np.concatenate([read_slice(piece, ["_vid"]).column("_vid").to_numpy() for piece in pieces])
    expected = np.zeros(len(vids), np.int32)
    for head, vid in changes:
        expected[head:] = vid
    assert len(changes) == 20
    assert np.array_equal(vids, expected)


def test_sensors_that_come_and_go_are_found_and_refused(tmp_path: Path) -> None:
    clock = ManualClock(1_763_190_000_000_000)
    log = StreamLog(tmp_path, Settings(), clock)
    catalog = Catalog(tmp_path / "journal", log.still, clock)
    ingest = Ingest(log, lambda: catalog.state, clock, Settings())
    table = catalog.create_table(Table(0, "probes", COLUMNS, ("sensor_id",), STREAM))
    rows = [{"sensor_id": 1, "ppm": 1.0}, {"sensor_id": 2, "ppm": 2.0}]
    assert ingest.push("probes", rows).result(60).accepted == 0
    catalog.insert_rows("probes", [(1, "north", "a"), (2, "south", "b")])
    assert ingest.push("probes", rows).result(60).accepted == 2
    catalog.delete_rows("probes", [0])
    assert [r.index for r in ingest.push("probes", rows).result(60).refused] == [0]
    sids = np.array([0, 1], np.int32)
    receipt = ingest.push_resolved(table, sids, None, [pa.array([1.0, 2.0])]).result(60)
    assert [r.condition for r in receipt.refused] == ["sensor_not_found"]
    log.close()
