"""The detectors, functions and statements of the application, without a server."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from apps.hazmat import box_state, statements
from apps.hazmat.background import HINT, read_background, write_background
from apps.hazmat.belt import SECOND, SIDES, Belt, bursts, truth
from apps.hazmat.decision import ALARM, FAULT, MORE, Rules, decide
from apps.hazmat.detector import Detector
from apps.hazmat.follow import Follower, decision_of
from apps.hazmat.functions import MATCHES, PEAK
from apps.hazmat.matching import METHODS
from apps.hazmat.measure.outcome import site_hypotheses
from apps.hazmat.page import method_rows
from apps.hazmat.peaks import peaks
from apps.hazmat.reading import LIBRARY, radiacode_tools, read_bursts, suro
from apps.hazmat.spectrum import Spectrum, overlaps
from apps.hazmat.statements import (
    INSERT_DECISION,
    QUERIES,
    RECORDED,
    Site,
    create_sink,
    functions,
    insert_actions,
    insert_detectors,
    tables,
)
from penstock.catalog.model import Function
from penstock.client import Connection
from penstock.errors import PenstockError, error
from penstock.expr.code_workers import CODE_WORKERS
from penstock.expr.user_functions import compile_function
from penstock.sensors.base import ReadResult
from penstock.sql.parse import parse_script
from penstock.types import DOUBLE, Field, parse_type
from tests.spark.asking import eventually
from tests.support.manual_clock import ManualClock
from tests.support.pipe import Pipe

BEGAN_US = 1_777_777_760_000_000
BEGAN = datetime.fromtimestamp(BEGAN_US // SECOND, UTC)
OFFICE = suro()[1]


@pytest.fixture
def background(tmp_path: Path) -> str:
    path = tmp_path / "background.json"
    write_background([dataclasses.replace(suro()[2], detector=side) for side in SIDES], path)
    return str(path)


def detector(side: str, clock: ManualClock, **options: object) -> Detector:
    return Detector(side, (), {"scenario": "belt", "seed": 1, "period_s": 20, **options}, clock)


Burst = tuple[str, list[int], float, datetime, tuple[float, float, float]]


def box_of(number: int, seconds: int = 18, scenario: str = "threats") -> list[Burst]:
    """The bursts of one box, as `judge` gets them."""
    counts = bursts(Belt(scenario=scenario), number)[:seconds]
    return [
        (side, counts[second, place].tolist(), 1.0, BEGAN + timedelta(seconds=second), OFFICE.calibration)
        for second in range(len(counts))
        for place, side in enumerate(SIDES)
    ]


def state_of(box: list[Burst]) -> box_state.State:
    return functools.reduce(lambda state, burst: box_state.add(state, *burst), box, box_state.init())


def judged(box: list[Burst], background: str) -> dict[str, Any]:
    return box_state.finish(state_of(box), background, Rules(a_min=8.0, max_s=18.0))


def test_every_statement_is_read_by_the_parser() -> None:
    site = Site("background.json")
    sinks = [create_sink(each) for each in (site, dataclasses.replace(site, webhook="https://alarms.example/it's"))]
    for text in (tables(site), functions(site), insert_detectors(), insert_actions(), *QUERIES.values(), *sinks):
        assert parse_script(text)


def test_a_detector_sends_every_burst_once_however_often_it_is_asked() -> None:
    clock = ManualClock(BEGAN_US)
    one = detector("left", clock)
    one.init()
    times: list[int] = []
    for step_us in (SECOND // 3, 5 * SECOND, 0, 40 * SECOND):
        clock.advance(step_us)
        reading = one.read()
        if reading.answer is ReadResult.NEW_VALUE:
            assert reading.times_us is not None
            times += reading.times_us
            assert all(len(row[3]) == 256 and sum(row[3]) == row[2] for row in reading.rows)
    assert times == sorted(set(times)) and len(times) == 41
    assert len({time % SECOND for time in times}) == 1


def test_after_a_restart_a_detector_sends_what_it_measured_meanwhile() -> None:
    clock = ManualClock(BEGAN_US)
    whole = detector("right", clock)
    whole.init()
    clock.advance(30 * SECOND)
    expected = whole.read()
    again = detector("right", clock)
    assert expected.times_us is not None and again.resumes
    again.resume(expected.times_us[9])
    again.init()
    found = again.read()
    assert found.times_us == expected.times_us[10:] and found.rows == expected.rows[10:]


def test_a_detector_that_does_not_exist_names_those_that_do() -> None:
    with pytest.raises(ValueError, match="left, right, front, back"):
        detector("above", ManualClock(BEGAN_US)).init()


def test_the_belt_has_all_kinds_of_boxes_and_the_same_ones_for_a_seed() -> None:
    kinds = [truth(Belt(), number)[0] for number in range(200)]
    assert kinds == [truth(Belt(), number)[0] for number in range(200)]
    assert {"none", "natural", "Cs-137", "Sr-90"} <= set(kinds) and 70 < kinds.count("none") < 130
    assert truth(Belt(scenario="empty"), 3)[0] == "none" != truth(Belt(scenario="threats"), 3)[0]


def test_a_verdict_is_the_first_one_of_looking_after_each_second(background: str) -> None:
    site = site_hypotheses()
    for number, scenario in ((3, "threats"), (4, "threats"), (5, "empty")):
        box = box_of(number, scenario=scenario)
        found = judged(box, background)
        counts = np.array([burst[1] for burst in box]).reshape(18, 4, 256).sum(axis=1)
        looks = decide(
            site,
            (counts @ overlaps(256, OFFICE.calibration)).cumsum(axis=0),
            np.arange(1.0, 19.0) * 4,
            4.0,
            Rules(a_min=8.0, max_s=18.0),
        )
        first = next(second for second in range(18) if looks.verdict[second] != MORE)
        assert (found["verdict"], found["after_s"]) == (looks.verdict[first], first + 1)
        at_decision = (looks.finding[first], pytest.approx(looks.confidence[first], abs=1e-5))
        assert (found["first_finding"], found["first_confidence"]) == at_decision
        assert found["live_s"] == 72 and found["log_m"] == pytest.approx(looks.log_m[-1], abs=1e-4)
        assert scenario == "empty" or found["verdict"] == ALARM


def test_a_verdict_does_not_depend_on_the_order_of_bursts_or_on_how_they_are_split(background: str) -> None:
    box = box_of(3)
    whole = judged(box, background)
    dice = np.random.default_rng(1)
    for _ in range(5):
        shuffled = [box[place] for place in dice.permutation(len(box))]
        cuts = [0, *sorted(dice.integers(0, len(box), size=3)), len(box)]
        parts = [state_of(shuffled[low:high]) for low, high in itertools.pairwise(cuts)]
        merged = functools.reduce(box_state.merge, [parts[place] for place in dice.permutation(len(parts))])
        assert box_state.finish(merged, background, Rules(a_min=8.0, max_s=18.0)) == whole


def test_a_burst_that_cannot_be_used_is_a_fault_of_its_box(background: str) -> None:
    good = box_of(3)
    side, counts, live_s, at, calibration = good[8]
    none, falling = (math.inf, 1.0, 0.0), (0.0, -1.0, 0.0)
    wrong: list[tuple[Burst, str]] = [
        ((side, counts[:255], live_s, at, calibration), "a spectrum of 255 channels; detectors have 256 or 1024"),
        ((side, [-1, *counts[1:]], live_s, at, calibration), "a spectrum with negative counts"),
        ((side, counts, 0.0, at, calibration), "a burst without live seconds"),
        ((side, counts, live_s, at, none), "a detector without a calibration"),
        ((side, counts, live_s, at, falling), "calibration 0, -1, 0 does not rise over 256 channels"),
        (("above", counts, live_s, at, calibration), f"there is no background run of detector above; {HINT}"),
    ]
    for burst, why in wrong:
        found = judged([*good[:8], burst, *good[9:]], background)
        assert (found["verdict"], found["finding"], found["bins"]) == (FAULT, why, None)
        assert decision_of({"box": "x", **found}) == ("x", FAULT, why, None, None)


def test_without_a_background_run_no_box_is_judged(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no background run; measure one"):
        judged(box_of(3), str(tmp_path / "nothing.json"))


@pytest.fixture
def workers_with_apps(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Processes that merge and finish can import this application, as those of a server for it have to."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    CODE_WORKERS.close()
    yield
    CODE_WORKERS.close()


@pytest.mark.usefixtures("workers_with_apps")
def test_the_aggregate_in_the_cycle_says_of_each_box_what_its_bursts_say(background: str, tmp_path: Path) -> None:
    site = Site(background)
    pipe = Pipe(tmp_path / "data", began_us=BEGAN_US)
    for text in (tables(site), insert_detectors(simulated=False), functions(site), QUERIES["verdicts"]):
        pipe.db.execute(text)
    pipe.engine.drain()
    pipe.db.execute("INSERT INTO detectors VALUES ('new', 'new', NULL, 3.0, 0.0, NULL)")
    boxes = {f"box {number}": box_of(number, seconds=3) for number in (3, 4)}
    dice = np.random.default_rng(2)
    for second in range(3):
        pipe.clock.advance(SECOND)
        for name, box in boxes.items():
            for side, counts, live_s, at, _ in box[4 * second : 4 * second + 4]:
                row = {"detector": side, "box": name, "live_s": live_s, "total": sum(counts), "counts": counts}
                pipe.db.push("detectors", [{**row, "ts": at.isoformat()}])
                if dice.random() < 0.4:
                    pipe.engine.drain()
    bad = {"live_s": 1.0, "total": 1, "counts": [1] * 256}
    pipe.db.push("detectors", [{"detector": "new", "box": "bad", **bad}])
    without = pipe.db.push("detectors", [{"detector": "new", "box": "empty", **bad, "counts": None}])
    assert [refusal.condition for refusal in without.refused] == ["not_null_violation"]
    pipe.engine.drain()
    found = {row.pop("box"): row for row in pipe.db.standing.invoke("verdicts").table.to_pylist()}
    assert found["bad"]["finding"] == "a detector without a calibration"
    for name, box in boxes.items():
        expected = judged(box, background)
        # Another process may differ in the last digits of sums.
        assert found[name]["bins"] == expected.pop("bins")
        assert {column: found[name][column] for column in expected} == pytest.approx(expected)
        assert (found[name]["since"], found[name]["last"]) == (box[0][3], box[-1][3])
    pipe.db.stop()


def test_peaks_are_found_in_each_spectrum() -> None:
    parameters = (Field("bins", parse_type("ARRAY<DOUBLE>")),)
    look = "from apps.hazmat.functions import find_peaks\nreturn find_peaks(bins)"
    find = compile_function(Function("peaks", parameters, parse_type(PEAK), look, vectorised=True))
    strong, nothing = find(pa.array([suro()[24].bins.tolist(), None], pa.list_(pa.float64()))).to_pylist()
    assert "Cs-137" in {peak["line"] for peak in strong} and nothing is None


def test_the_decision_about_a_box_is_the_same_whichever_of_its_later_bursts_are_known(background: str) -> None:
    box = box_of(3)
    whole = judged(box, background)
    assert whole["verdict"] == ALARM and isinstance(whole["after_s"], float)
    decided_s = int(whole["after_s"])
    assert decided_s < 17
    for seconds in (decided_s, decided_s + 1, 18):
        row = {"box": "box 3", **judged(box[: 4 * seconds], background)}
        decision = decision_of(row)
        assert decision == ("box 3", ALARM, whole["first_finding"], whole["first_confidence"], whole["after_s"])
    assert decision_of({"box": "box 3", **judged(box[: 4 * (decided_s - 1)], background)}) is None


class Unreliable:
    """A connection to a database in this process that is lost at some statements: before they run, or after."""

    url = ""

    def __init__(self, pipe: Pipe, lost: list[str]) -> None:
        self._pipe, self._lost = pipe, lost

    def sql(self, text: str, *values: object) -> None:
        lost = self._lost.pop(0) if self._lost else ""
        if lost != "before":
            self._pipe.db.execute(text, list(values))
        if lost:
            raise error("connection_failed", url="", detail="it was cut")


@pytest.mark.parametrize("lost", [["before"], ["after"], ["before", "after"], ["after", "before", "after"]])
def test_a_decision_is_stored_once_however_often_the_connection_is_lost(tmp_path: Path, lost: list[str]) -> None:
    pipe = Pipe(tmp_path / "data")
    pipe.db.execute(tables(Site("background.json")))
    connection = cast(Connection, Unreliable(pipe, [*lost]))
    follower = Follower(connection)
    first, corrected = ("box 1", "alarm", "not yet identified", 0.4, 3.0), ("box 1", "alarm", "Cs-137", 0.96, 4.0)
    for decision in (None, first, first, corrected, corrected):
        for _ in lost:  # as often as it fails, the follower comes back with the same row
            with contextlib.suppress(PenstockError):
                follower.store(connection, decision)
        follower.store(connection, decision)
    right = "verdict = $2 AND finding = $3 AND confidence = $4 AND after_s = $5"
    assert pipe.db.execute(f"DELETE FROM decisions WHERE box = $1 AND {right}", list(corrected)).done == "DELETE 1"
    assert pipe.db.execute("DELETE FROM decisions WHERE box <> ''").done == "DELETE 0"
    pipe.db.stop()


def test_three_methods_match_each_spectrum_as_they_do_alone(background: str) -> None:
    parameters = (Field("bins", parse_type("ARRAY<DOUBLE>")), Field("live_s", DOUBLE))
    look = f"from apps.hazmat.functions import match_all\nreturn match_all(bins, live_s, {background!r})"
    matches = compile_function(Function("matches", parameters, parse_type(MATCHES), look, vectorised=True))
    boxes = [judged(box_of(number), background) for number in (3, 4)]
    table = pa.array([boxes[0]["bins"], None, boxes[1]["bins"]], pa.list_(pa.float64()))
    one, nothing, other = matches(table, pa.array([72.0, 72.0, 72.0])).to_pylist()
    assert nothing == dict.fromkeys(METHODS)
    site = read_background(Path(background))
    for box, found in zip(boxes, (one, other), strict=True):
        assert found == {m: match(np.array([box["bins"]]), np.array([72.0]), site)[0] for m, match in METHODS.items()}
        rows = method_rows({**box, "live_s": 72.0}, site)
        assert [row["finding"] for row in rows] == [f"ALARM: {box['finding']}", *found.values()]


def test_recorded_bursts_are_played_by_replay(tmp_path: Path) -> None:
    """690 real bursts near potassium, one per minute, as fast as they can be read."""
    assert RECORDED in (Path(statements.__file__).parent / "README.md").read_text()
    pipe = Pipe(tmp_path / "data", sensor_files=str(LIBRARY))
    pipe.db.execute(RECORDED.replace("'60x'", "'max'"))
    recorded = read_bursts(LIBRARY / "k40_bursts.parquet")
    eventually(lambda: played(pipe)["bursts"] == len(recorded.counts))
    whole = played(pipe)
    assert whole["live_s"] == recorded.live_s.sum()
    assert np.array_equal(whole["counts"], recorded.counts.sum(axis=0))
    calibration = radiacode_tools()["bg"].calibration  # of a unit of the same kind
    spectrum = Spectrum("K40", np.array(whole["counts"], dtype=np.int64), whole["live_s"], calibration)
    assert any(peak.kev == pytest.approx(1460.8, rel=0.01) for peak in peaks(spectrum.bins))
    pipe.db.stop()


def played(pipe: Pipe) -> dict[str, Any]:
    pipe.engine.drain()
    (row,) = pipe.db.standing.invoke("recorded").table.to_pylist() or [{"bursts": 0}]
    return dict(row)


def test_a_burst_of_an_unknown_detector_is_refused_and_a_decision_is_stored(tmp_path: Path) -> None:
    pipe = Pipe(tmp_path / "data")
    for text in (tables(Site("background.json")), insert_detectors(), insert_actions()):
        pipe.db.execute(text)
    row = {"box": "x", "live_s": 1.0, "total": 1, "counts": [1] * 256}
    receipt = pipe.db.push("detectors", [{"detector": "nowhere", **row}, {"detector": "left", **row}])
    assert receipt.accepted == 1
    (refused,) = receipt.refused
    assert refused.condition == "sensor_not_found" and "nowhere" in refused.message
    stored = pipe.db.execute(INSERT_DECISION, ["box 1", "fault", "a burst without live seconds", None, None])
    assert stored.done is not None and stored.done.startswith("INSERT")
    pipe.db.stop()
