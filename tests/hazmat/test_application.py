"""The detectors, functions and statements of the application, without a server."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from apps.hazmat.background import HINT, write_background
from apps.hazmat.belt import SECOND, SIDES, Belt, bursts, truth
from apps.hazmat.decision import ALARM, FAULT, MORE, Rules, decide
from apps.hazmat.detector import Detector
from apps.hazmat.functions import BURST, PEAK, VERDICT, find_peaks, judge, make_bursts
from apps.hazmat.measure.outcome import site_hypotheses
from apps.hazmat.reading import suro
from apps.hazmat.spectrum import BINS
from apps.hazmat.statements import (
    INSERT_DECISION,
    QUERIES,
    Site,
    create_sink,
    functions,
    insert_actions,
    insert_detectors,
    tables,
)
from penstock.catalog.model import Function
from penstock.expr.user_functions import compile_function
from penstock.sensors.base import ReadResult
from penstock.sql.parse import parse_script
from penstock.types import DOUBLE, INT, TEXT, TIMESTAMP, Field, parse_type
from tests.support.manual_clock import ManualClock
from tests.support.pipe import Pipe

BEGAN_US = 1_777_777_760_000_000
OFFICE = suro()[1]


@pytest.fixture
def background(tmp_path: Path) -> str:
    path = tmp_path / "background.json"
    write_background([dataclasses.replace(suro()[2], detector=side) for side in SIDES], path)
    return str(path)


def detector(side: str, clock: ManualClock, **options: object) -> Detector:
    return Detector(side, (), {"scenario": "belt", "seed": 1, "period_s": 20, **options}, clock)


def box_of(number: int, seconds: int = 18, scenario: str = "threats") -> list[dict[str, object]]:
    """The bursts of one box, as ARRAY_AGG(burst(...)) gives them."""
    counts = bursts(Belt(scenario=scenario), number)[:seconds].reshape(-1, 256)
    at = np.repeat(np.arange(seconds), 4) * SECOND + BEGAN_US
    found = make_bursts(
        pa.array([SIDES[row % 4] for row in range(len(counts))]),
        pa.array(counts.tolist()),
        pa.array(np.ones(len(counts))),
        pa.array(at, pa.timestamp("us", tz="UTC")),
        calibration(len(counts)),
    )
    columns = [pa.array(column).to_pylist() for column in found.values()]
    return [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]


def calibration(rows: int) -> tuple[pa.Array, ...]:
    return tuple(pa.array(np.full(rows, value)) for value in OFFICE.calibration)


def judged(boxes: list[list[dict[str, object]]], background: str) -> list[dict[str, object]]:
    table = pa.array(boxes, parse_type(f"ARRAY<{BURST}>").to_arrow())
    found = judge(table, pa.array([4] * len(boxes)), background, 8.0, 18.0)
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]


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
        (found,) = judged([box], background)
        bins = np.array([burst["bins"] for burst in box]).reshape(18, 4, BINS).sum(axis=1).cumsum(axis=0)
        looks = decide(site, bins, np.arange(1.0, 19.0) * 4, 4.0, Rules(a_min=8.0, max_s=18.0))
        first = next(second for second in range(18) if looks.verdict[second] != MORE)
        assert (found["verdict"], found["after_s"]) == (looks.verdict[first], first + 1)
        assert found["live_s"] == 72 and found["log_m"] == pytest.approx(looks.log_m[-1], abs=1e-6)
        assert scenario == "empty" or found["verdict"] == ALARM


def test_a_verdict_does_not_depend_on_the_order_of_bursts_or_on_other_boxes(background: str) -> None:
    box, other = box_of(3), box_of(5, scenario="empty")
    shuffled = [box[place] for place in np.random.default_rng(1).permutation(len(box))]
    (alone,) = judged([box], background)
    assert judged([shuffled], background) == [alone]
    together = judged([other, box], background)[1]
    assert {name: together[name] for name in ("verdict", "finding", "after_s", "bins")} == {
        name: alone[name] for name in ("verdict", "finding", "after_s", "bins")
    }


def test_a_burst_that_cannot_be_used_is_a_fault_of_its_box_only(background: str) -> None:
    at = pa.array([BEGAN_US], pa.timestamp("us", tz="UTC"))
    left = pa.array(["left"])
    short = make_bursts(left, pa.array([[1] * 255]), pa.array([1.0]), at, calibration(1))
    assert short["bins"].to_pylist() == [None] and short["channels"].tolist() == [255]
    uncalibrated = make_bursts(left, pa.array([[1] * 256]), pa.array([1.0]), at, (pa.array([None], pa.float64()),) * 3)
    good = box_of(3)
    wrong = [*good[:8], {**good[8], "channels": 255, "bins": None}]
    lost = [{**good[0], "channels": int(uncalibrated["channels"][0]), "bins": None}]
    strange = [*good[:8], {**good[8], "detector": "above"}]
    first, second, third, fourth = judged([wrong, good, lost, strange], background)
    assert (first["verdict"], first["finding"]) == (FAULT, "a spectrum of 255 channels; detectors have 256 or 1024")
    assert (third["verdict"], third["finding"]) == (FAULT, "a detector without a calibration")
    assert (fourth["verdict"], fourth["finding"]) == (FAULT, f"there is no background run of detector above; {HINT}")
    assert [second] == judged([good], background)


def test_without_a_background_run_no_box_is_judged(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no background run; measure one"):
        judged([box_of(3)], str(tmp_path / "nothing.json"))


def test_the_functions_give_what_their_types_say(background: str) -> None:
    burst_type = parse_type(BURST)
    parameters = (
        Field("detector", TEXT),
        Field("counts", parse_type("ARRAY<INT>")),
        Field("live_s", DOUBLE),
        Field("at", TIMESTAMP),
        *(Field(name, DOUBLE) for name in ("a0", "a1", "a2")),
    )
    body = (
        "from apps.hazmat.functions import make_bursts\nreturn make_bursts(detector, counts, live_s, at, (a0, a1, a2))"
    )
    make = compile_function(Function("burst", parameters, burst_type, body, vectorised=True))
    counts = pa.array(bursts(Belt(scenario="threats"), 3)[:5].reshape(-1, 256).tolist(), pa.list_(pa.int32()))
    at = pa.array([BEGAN_US + i // 4 * SECOND for i in range(20)], pa.timestamp("us", tz="UTC"))
    found = make(pa.array([*SIDES] * 5), counts, pa.array(np.ones(20)), at, *calibration(20))
    assert found.type == burst_type.to_arrow() and len(found) == 20
    given = (Field("bursts", parse_type(f"ARRAY<{BURST}>")), Field("detectors", INT))
    text = f"from apps.hazmat.functions import judge as run\nreturn run(bursts, detectors, {background!r}, 8.0, 18.0)"
    run = compile_function(Function("judge", given, parse_type(VERDICT), text, vectorised=True))
    boxes = pa.ListArray.from_arrays(pa.array([0, 20], pa.int32()), found)
    (verdict,) = run(boxes, pa.array([4], pa.int32())).to_pylist()
    assert verdict["verdict"] in (ALARM, MORE) and len(verdict["bins"]) == BINS
    look = "from apps.hazmat.functions import find_peaks\nreturn find_peaks(bins)"
    peaks = compile_function(
        Function("peaks", (Field("bins", parse_type("ARRAY<DOUBLE>")),), parse_type(PEAK), look, vectorised=True)
    )
    whole = pa.array([suro()[24].bins.tolist(), None], pa.list_(pa.float64()))
    strong, nothing = peaks(whole).to_pylist()
    assert "Cs-137" in {peak["line"] for peak in strong} and nothing is None
    assert len(find_peaks(whole)) == 2


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
