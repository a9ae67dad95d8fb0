"""apps/hazmat on a server with Spark: killed during a run, it gives the verdicts of an undisturbed one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.hazmat.__main__ import set_up, simulate_background
from apps.hazmat.background import HINT
from apps.hazmat.belt import SECOND, SIDES, Belt, bursts
from apps.hazmat.boxes import DETECTORS
from apps.hazmat.decision import ALARM, FAULT, MORE
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

# As `python -m apps.hazmat` sets it for the server that it starts.
BUDGET = {"PENSTOCK_SPARK_QUERY_BUDGET": "0.9"}
COLUMNS = ("verdict", "finding", "after_s", "live_s", "bins")


def expected(belt: Belt, number: int, site: Site) -> dict[str, Any]:
    """The verdict about a box, from its bursts as they leave the detectors, without a server."""
    counts = bursts(belt, number)
    rows = counts.reshape(-1, counts.shape[-1])
    at = belt.begins_us(number) + np.repeat(np.arange(len(counts)) + 1, DETECTORS) * SECOND
    calibration = tuple(pa.array(np.full(len(rows), value)) for value in suro()[TEST_BACKGROUND].calibration)
    made = make_bursts(
        pa.array([*SIDES] * len(counts)),
        pa.array(rows.tolist()),
        pa.array(np.ones(len(rows))),
        pa.array(at, pa.timestamp("us", tz="UTC")),
        calibration,
    )
    columns = [pa.array(column).to_pylist() for column in made.values()]
    box = [dict(zip(made, row, strict=True)) for row in zip(*columns, strict=True)]
    table = pa.array([box], parse_type(f"ARRAY<{BURST}>").to_arrow())
    found = judge(table, pa.array([DETECTORS]), site.background, site.a_min, site.max_s)
    return {name: found[name][0] for name in COLUMNS}


def by_box(connection: Connection, query: str) -> dict[str, dict[str, Any]]:
    try:
        return {row["box"]: row for row in connection.sql(f"SELECT * FROM {query}").rows()}
    except PenstockError:
        return {}  # before the first answer


def verdicts(connection: Connection) -> dict[str, dict[str, Any]]:
    return by_box(connection, "verdicts")


def finished_alarms(connection: Connection, live_s: int) -> list[dict[str, Any]]:
    """Alarms about boxes of which no burst will come any more."""
    rows = verdicts(connection).values()
    return [row for row in rows if row["verdict"] == ALARM and row["live_s"] == live_s]


def counts_of_sides(belt: Belt, number: int) -> dict[str, Any]:
    """The row of `sides` for a box, from pairs of bursts that are at most two seconds apart."""
    totals = bursts(belt, number).sum(axis=-1)
    left, right = (totals[:, SIDES.index(side)] for side in ("left", "right"))
    pairs = [(i, j) for i in range(len(totals)) for j in range(len(totals)) if abs(i - j) <= 2]
    return {
        "box": belt.name(number),
        "left_counts": float(np.mean([left[i] for i, _ in pairs])),
        "right_counts": float(np.mean([right[j] for _, j in pairs])),
    }


def alarms_in_files(folder: Path) -> set[tuple[str, str]]:
    """Box and action of each alarm that the sink has written."""
    tables = [pq.read_table(path).to_pylist() for path in sorted(folder.glob("*.parquet"))]
    return {(row["box"], row["action"]) for rows in tables for row in rows}


def refusal(connection: Connection) -> str:
    """What reading the verdicts is refused with."""
    try:
        connection.sql("SELECT * FROM verdicts")
    except PenstockError as problem:
        return problem.render()
    return ""


@pytest.mark.timeout(600)
def test_a_server_that_is_killed_gives_the_verdicts_of_an_undisturbed_one(tmp_path: Path) -> None:
    site = Site(str(simulate_background(tmp_path / "background.json", 1)), scenario="threats", period_s=8, max_s=6.0)
    belt = Belt(site.seed, site.period_s, site.scenario)
    with server_process(tmp_path, environment=BUDGET) as server:
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
            # A good one, of a detector that the background run does not have, is a fault of its box, too.
            connection.push("detectors", [{**bad, "box": "strange box", "counts": [1] * 256}])
            eventually(lambda: {"bad box", "strange box"} <= verdicts(connection).keys())
            sides = counts_of_sides(belt, first)
            eventually(lambda: by_box(connection, "sides").get(belt.name(first)) == pytest.approx(sides))
            eventually(lambda: finished_alarms(connection, whole))
            alarm = finished_alarms(connection, whole)[0]
            # An action that is edited while it runs is in the verdicts, and reaches the sink.
            connection.sql("UPDATE actions SET action = 'call Berta' WHERE finding = $1", alarm["finding"])
            eventually(lambda: verdicts(connection).get(alarm["box"], {}).get("action") == "call Berta")
            eventually(lambda: (alarm["box"], "call Berta") in alarms_in_files(server.data / "out" / "alarms"))
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
    assert found["strange box"]["verdict"] == FAULT
    assert found["strange box"]["finding"] == f"there is no background run of detector hand; {HINT}"
    assert found[alarm["box"]]["action"] == "call Berta"


@pytest.mark.timeout(600)
def test_without_a_background_run_verdicts_are_refused_and_the_rest_goes_on_until_there_is_one(tmp_path: Path) -> None:
    run = tmp_path / "background.json"
    site = Site(str(run), scenario="threats", period_s=8, max_s=6.0)
    belt = Belt(site.seed, site.period_s, site.scenario)
    with server_process(tmp_path, environment=BUDGET) as server:
        server.start()
        with server.connect() as connection:
            set_up(connection, site)
            first = belt.number_at(WallClock().now_us()) + 1
            eventually(lambda: HINT in refusal(connection))
            assert "function_failed" in refusal(connection)
            eventually(lambda: by_box(connection, "sides").get(belt.name(first)))
            simulate_background(run, 1)
            # Boxes that passed before it are judged, too: their bursts are in the log.
            whole = belt.stay_s * DETECTORS
            eventually(lambda: verdicts(connection).get(belt.name(first), {}).get("live_s") == whole)
            assert refusal(connection) == ""
