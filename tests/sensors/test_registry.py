"""Connectors by name, their options, and sensors of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import PenstockError
from penstock.sensors import registry
from penstock.sensors.base import Option, Reading, Sensor, new_value
from penstock.sensors.options import whole_number
from tests.sensors.world import FIELDS, GAS
from tests.support.manual_clock import ManualClock


class Dial(Sensor):
    """A dial on the wall."""

    OPTIONS = (Option("step", "1", "How far it moves.", whole_number(1)),)

    def read(self) -> Reading:
        return new_value((float(self.options["step"]),))


def refusal(name: str, options: dict[str, str]) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        registry.validate_connector(name, options, GAS)
    return caught.value


def test_an_unknown_connector_is_answered_with_the_nearest_one() -> None:
    problem = refusal("simulater", {})
    assert problem.condition == "connector_not_found" and problem.hint == 'did you mean "simulator"?'
    assert "replay" in str(refusal("zigbee", {}).hint)


@pytest.mark.parametrize(
    ("name", "options", "part"),
    [
        ("simulator", {"knd": "walk"}, "no such option"),
        ("simulator", {"kind": "wlak"}, "none of"),
        ("simulator", {"rate": "0"}, "more than 0"),
        ("simulator", {"rate": "fast"}, "not a number"),
        ("simulator", {"seed": "x"}, "whole number"),
        ("simulator", {"start": "soon"}, "neither a time nor a duration"),
        ("simulator", {"period": "0s"}, "longer than nothing"),
        ("replay", {"speed": "fast"}, "not a speed"),
        ("replay", {"columns": "ppm"}, "field=column"),
        ("replay", {"columns": "pm=value"}, 'no field "pm"'),
        ("tcp", {"format": "xml"}, "none of"),
        ("http", {"port": "1"}, "no such option"),
        ("python", {}, "needs it"),
        ("python", {"class": "nowhere"}, "module:Class"),
        ("python", {"class": "nowhere:Sensor"}, "cannot be imported"),
        ("python", {"class": "penstock.sensors.base:Reading"}, "not a Sensor"),
        ("python", {"class": "tests.sensors.test_registry:Dial", "step": "0"}, "less than 1"),
        ("python", {"class": "tests.sensors.test_registry:Dial", "stp": "2"}, "no such option"),
    ],
)
def test_a_bad_option_is_refused_when_the_stream_type_is_created(name: str, options: dict[str, str], part: str) -> None:
    problem = refusal(name, options)
    assert problem.condition == "invalid_option" and part in problem.message


def test_options_have_defaults_and_names_in_any_case() -> None:
    connector = registry.validate_connector("Simulator", {"RATE": "5"}, GAS)
    assert registry.parse_options(connector, {"RATE": "5"})["rate"] == 5.0


def test_every_option_has_a_sentence_and_a_default_that_it_accepts() -> None:
    for connector in registry.BUILT_IN:
        assert connector.sentence.endswith(".")
        for option in connector.options:
            assert option.sentence.endswith(".")
            if option.default is not None:
                option.parse(option.default)


def test_http_opens_nothing() -> None:
    assert registry.find_connector("http").mode == "outside"
    assert registry.create_sensor("http", "x", GAS, {}, ManualClock()) is None


def test_a_class_of_ones_own_is_created_with_its_own_options() -> None:
    options = {"class": "tests.sensors.test_registry:Dial", "step": "3"}
    registry.validate_connector("python", options, FIELDS)
    sensor = registry.create_sensor("python", "wall", FIELDS, options, ManualClock())
    assert isinstance(sensor, Sensor) and sensor.read().rows == ((3.0,),)


def forget_entry_points() -> None:
    registry._entry_point_names.cache_clear()
    registry._load_entry_point.cache_clear()


def test_a_package_brings_a_connector_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "dials-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: dials\nVersion: 1.0\n")
    points = "dial = tests.sensors.test_registry:Dial\nbroken = no.such.module:X\n"
    (package / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{points}")
    monkeypatch.syspath_prepend(tmp_path)
    forget_entry_points()
    try:
        assert registry.find_connector("dial").sentence == "A dial on the wall."
        with pytest.raises(PenstockError, match="broken") as caught:
            registry.find_connector("broken")
        assert "does not load" in str(caught.value.hint)
    finally:
        monkeypatch.undo()
        forget_entry_points()
