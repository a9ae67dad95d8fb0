"""apps/hazmat on a server with Spark: killed during a run, it gives the verdicts of an undisturbed one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.hazmat import box_state
from apps.hazmat.__main__ import set_up, simulate_background
from apps.hazmat.background import HINT
from apps.hazmat.belt import SECOND, SIDES, Belt, bursts
from apps.hazmat.boxes import DETECTORS
from apps.hazmat.decision import ALARM, FAULT, Rules
from apps.hazmat.follow import Follower, decision_of
from apps.hazmat.functions import find_peaks, match_all
from apps.hazmat.reading import suro
from apps.hazmat.split import TEST_BACKGROUND
from apps.hazmat.statements import LOOK_AT_BOX, Site
from penstock.client import Connection
from penstock.clock import WallClock
from penstock.errors import PenstockError
from tests.spark import asking
from tests.support.server_process import ServerProcess, server_process

# A look reads spectra, and what is waited for takes seconds.
eventually = partial(asking.eventually, pause_s=0.25)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COLUMNS = ("verdict", "finding", "after_s", "live_s", "bins")
DECISION = ("verdict", "finding", "confidence", "after_s")


def expected(belt: Belt, number: int, site: Site) -> dict[str, Any]:
    """The row of `verdicts` about a box, from its bursts as they leave the detectors, without a server."""
    state, calibration = box_state.init(), suro()[TEST_BACKGROUND].calibration
    for second, detectors in enumerate(bursts(belt, number)):
        at = EPOCH + timedelta(microseconds=belt.begins_us(number) + (second + 1) * SECOND)
        for side, counts in zip(SIDES, detectors, strict=True):
            state = box_state.add(state, side, counts.tolist(), 1.0, at, calibration)
    found = box_state.finish(state, site.background, Rules(a_min=site.a_min, max_s=site.max_s))
    return {"box": belt.name(number), **found}


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


def stored_decisions(connection: Connection) -> dict[str, dict[str, Any]]:
    return {row["box"]: row for row in connection.sql("SELECT * FROM decisions").rows()}


def decisions_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The rows that `decisions` has for these verdicts."""
    made = [decision for decision in map(decision_of, rows) if decision is not None]
    return {box: pytest.approx(dict(zip(("box", *DECISION), (box, *rest), strict=True))) for box, *rest in made}


def lines_of(peaks: list[dict[str, Any]] | None) -> list[tuple[str, float]]:
    return [(peak["line"], round(peak["kev"], 3)) for peak in peaks or []]


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Its background run is not there yet."""
    run = tmp_path_factory.mktemp("site") / "background.json"
    return Site(str(run), scenario="threats", period_s=8, max_s=6.0)


@pytest.fixture(scope="module")
def server(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The tests tell one story on it, in order: the second one goes on where the first one stopped."""
    with server_process(tmp_path_factory.mktemp("hazmat")) as found:
        found.start()
        with found.connect() as connection:
            set_up(connection, site)
        yield found


@pytest.mark.timeout(600)
def test_without_a_background_run_verdicts_are_refused_and_the_rest_goes_on_until_there_is_one(
    server: ServerProcess, site: Site
) -> None:
    belt = Belt(site.seed, site.period_s, site.scenario)
    with server.connect() as connection:
        first = belt.number_at(WallClock().now_us()) + 1
        eventually(lambda: HINT in refusal(connection))
        assert "function_failed" in refusal(connection)
        eventually(lambda: by_box(connection, "sides").get(belt.name(first)))
        simulate_background(Path(site.background), 1)
        # Boxes that passed before it are judged, too: their bursts are in the log.
        whole = belt.stay_s * DETECTORS
        eventually(lambda: verdicts(connection).get(belt.name(first), {}).get("live_s") == whole)
        assert refusal(connection) == ""


@pytest.mark.timeout(600)
def test_a_server_that_is_killed_gives_the_verdicts_of_an_undisturbed_one(server: ServerProcess, site: Site) -> None:
    if not Path(site.background).exists():  # without the test before
        simulate_background(Path(site.background), 1)
    belt = Belt(site.seed, site.period_s, site.scenario)
    with server.connect() as connection:
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
        # An action that is edited while it runs is in the alarms, on the page, and reaches the sink.
        connection.sql("UPDATE actions SET action = 'call Berta' WHERE finding = $1", alarm["finding"])
        eventually(lambda: by_box(connection, "alarms").get(alarm["box"], {}).get("action") == "call Berta")
        eventually(lambda: follower.boxes.what_to_do(alarm) == "call Berta")
        eventually(lambda: (alarm["box"], "call Berta") in alarms_in_files(server.data / "out" / "alarms"))
        # The other methods and the peaks of a box are there in SQL, as the functions say them alone.
        (look,) = connection.sql(LOOK_AT_BOX, alarm["box"]).rows()
        bins, live_s = pa.array([alarm["bins"]]), pa.array([alarm["live_s"]])
        assert look["matched"] == {m: name for m, (name,) in match_all(bins, live_s, site.background).items()}
        assert lines_of(look["peaks"]) == lines_of(find_peaks(bins)[0])
    killed = belt.number_at(WallClock().now_us())
    server.kill("server")
    server.start()
    with server.connect() as connection:
        after = belt.number_at(WallClock().now_us()) + 1
        eventually(lambda: verdicts(connection).get(belt.name(after), {}).get("live_s") == whole)
        found, alarms = verdicts(connection), by_box(connection, "alarms")
        undisturbed = [expected(belt, number, site) for number in range(first, after + 1)]
        faults = [found[box] for box in ("bad box", "strange box")]
        decided = decisions_of([*undisturbed, *faults])
        # The follower has gone on by itself. It also wrote down boxes from before the first whole one.
        eventually(lambda: decided.keys() <= stored_decisions(connection).keys())
        stored = stored_decisions(connection)
    assert killed >= first
    assert len(decided) == len(undisturbed) + len(faults)
    for direct in undisturbed:
        assert {name: found[direct["box"]][name] for name in COLUMNS} == {name: direct[name] for name in COLUMNS}
    assert {box: stored[box] for box in decided} == decided
    assert found["bad box"]["verdict"] == FAULT and "255 channels" in found["bad box"]["finding"]
    assert found["strange box"]["verdict"] == FAULT
    assert found["strange box"]["finding"] == f"there is no background run of detector hand; {HINT}"
    assert alarms[alarm["box"]]["action"] == "call Berta"
