"""apps/hazmat on a server with Spark: killed during a run, it gives the verdicts of an undisturbed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from apps.hazmat.__main__ import set_up, simulate_background
from apps.hazmat.belt import SECOND, Belt, bursts
from apps.hazmat.boxes import DETECTORS
from apps.hazmat.decision import FAULT, MORE
from apps.hazmat.follow import Follower
from apps.hazmat.functions import BURST, judge, make_bursts
from apps.hazmat.reading import suro
from apps.hazmat.split import TEST_BACKGROUND
from apps.hazmat.statements import Site
from penstock.client import Connection
from penstock.clock import WallClock
from penstock.errors import PenstockError
from penstock.types import parse_type
from tests.spark.asking import eventually
from tests.support.server_process import server_process

COLUMNS = ("verdict", "finding", "after_s", "live_s", "bins")


def expected(belt: Belt, number: int, site: Site) -> dict[str, Any]:
    """The verdict about a box, from its bursts as they leave the detectors, without a server."""
    counts = bursts(belt, number)
    rows = counts.reshape(-1, counts.shape[-1])
    at = belt.begins_us(number) + np.repeat(np.arange(len(counts)) + 1, DETECTORS) * SECOND
    calibration = tuple(pa.array(np.full(len(rows), value)) for value in suro()[TEST_BACKGROUND].calibration)
    made = make_bursts(
        pa.array(rows.tolist()), pa.array(np.ones(len(rows))), pa.array(at, pa.timestamp("us", tz="UTC")), calibration
    )
    columns = [pa.array(column).to_pylist() for column in made.values()]
    box = [dict(zip(made, row, strict=True)) for row in zip(*columns, strict=True)]
    table = pa.array([box], parse_type(f"ARRAY<{BURST}>").to_arrow())
    found = judge(table, pa.array([DETECTORS]), site.background, site.a_min, site.max_s)
    return {name: found[name][0] for name in COLUMNS}


def verdicts(connection: Connection) -> dict[str, dict[str, Any]]:
    try:
        return {row["box"]: row for row in connection.sql("SELECT * FROM verdicts").rows()}
    except PenstockError:
        return {}  # before the first answer


@pytest.mark.timeout(600)
def test_a_server_that_is_killed_gives_the_verdicts_of_an_undisturbed_one(tmp_path: Path) -> None:
    site = Site(str(simulate_background(tmp_path / "background.json", 1)), scenario="threats", period_s=8, max_s=6.0)
    belt = Belt(site.seed, site.period_s, site.scenario)
    with server_process(tmp_path) as server:
        server.start()
        with server.connect() as connection:
            set_up(connection, site)
            eventually(lambda: all(s["state"] in ("open", "idle") for s in connection.sensors("detectors")))
            first = belt.number_at(WallClock().now_us()) + 1
            follower = Follower(connection)
            follower.start()
            whole = belt.stay_s * DETECTORS
            eventually(lambda: verdicts(connection).get(belt.name(first), {}).get("live_s") == whole)
            # A spectrum of the wrong length is a fault of its box. It comes from a detector of its own: beside a push, a burst
            # of the same detector that ended just before it would be refused as out of order.
            connection.sql("INSERT INTO detectors VALUES ('hand', 'hand', 0.0, 3.0, 0.0, NULL)")
            bad = {"detector": "hand", "box": "bad box", "live_s": 1.0, "total": 1, "counts": [1] * 255}
            connection.push("detectors", [bad])
            eventually(lambda: "bad box" in verdicts(connection))
        killed = belt.number_at(WallClock().now_us())
        server.kill("server")
        server.start()
        with server.connect() as connection:
            after = belt.number_at(WallClock().now_us()) + 1
            eventually(lambda: verdicts(connection).get(belt.name(after), {}).get("live_s") == whole)
            found = verdicts(connection)
            stored = {row["box"]: row for row in connection.sql("SELECT * FROM decisions").rows()}
    assert killed >= first
    for number in range(first, after + 1):
        row, direct = found[belt.name(number)], expected(belt, number, site)
        assert {name: row[name] for name in COLUMNS} == direct, belt.name(number)
        if belt.name(number) in stored and direct["verdict"] != MORE:
            kept = stored[belt.name(number)]
            assert (kept["verdict"], kept["after_s"]) == (direct["verdict"], direct["after_s"])
    assert belt.name(first) in stored
    assert found["bad box"]["verdict"] == FAULT and "255 channels" in found["bad box"]["finding"]
