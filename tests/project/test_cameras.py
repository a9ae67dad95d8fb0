"""The world, the statements and the map of apps/cameras, without a server. tests/live runs the whole of it."""

from __future__ import annotations

import io
from xml.etree import ElementTree

import pytest
from rich.console import Console

from apps.cameras.camera import Camera
from apps.cameras.drawing import draw_map
from apps.cameras.paths import Path, Score, score
from apps.cameras.statements import DEFINITIONS, follow, insert_cameras
from apps.cameras.town import CAMERAS, FASTEST_M_PER_S, ROUTES, SLOWEST_M_PER_S, length_m
from apps.cameras.traffic import SECOND, Traffic
from apps.cameras.view import draw, draw_town, summary
from penstock.sensors.base import ReadResult
from penstock.sql.parse import parse_script
from penstock.types import DOUBLE, Field
from tests.support.manual_clock import ManualClock

BEGAN_US = 1_777_777_777_000_000


def path_of(number: int) -> Path:
    car = Traffic().car(number)
    return Path(car.route, tuple(s.time_us for s in car.sightings), car.feature)


def test_every_statement_is_read_by_the_parser() -> None:
    for text in (DEFINITIONS.format(seed=1, every_s=1.0), insert_cameras(), *map(follow, ROUTES)):
        assert parse_script(text)


def test_cars_keep_to_the_speeds_that_the_windows_allow() -> None:
    for car in map(Traffic().car, range(200)):
        for one, other in zip(car.sightings[:-1], car.sightings[1:], strict=True):
            speed = length_m(one.camera, other.camera) * SECOND / (other.time_us - one.time_us)
            assert SLOWEST_M_PER_S - 0.01 <= speed <= FASTEST_M_PER_S + 0.01


def test_a_camera_sees_every_car_once_however_often_it_looks() -> None:
    clock = ManualClock(BEGAN_US)
    camera = Camera("mill", (Field("feature", DOUBLE),), {"seed": 1, "every_s": 1.0}, clock)
    camera.init()
    seen: list[int] = []
    for step_us in (SECOND // 5, 3 * SECOND, 0, 40 * SECOND):
        clock.advance(step_us)
        reading = camera.read()
        if reading.answer is ReadResult.NEW_VALUE:
            assert reading.times_us is not None
            seen += reading.times_us
    expected = [s.time_us for s in Traffic().seen("mill", BEGAN_US, clock.now_us())]
    assert seen == expected and len(seen) > 10


def test_a_camera_that_does_not_exist_names_those_that_do() -> None:
    camera = Camera("moon", (), {"seed": 1, "every_s": 1.0}, ManualClock(BEGAN_US))
    with pytest.raises(ValueError, match="west gate"):
        camera.init()


def test_the_score_counts_whole_drives_and_mistakes() -> None:
    traffic = Traffic()
    first = traffic.number_at(BEGAN_US)
    until_us = BEGAN_US + 60 * SECOND
    driven = score([], traffic, BEGAN_US, until_us).driven
    assert driven > 10
    mistaken = Path("back home", (1, 2, 3, 4), 5.0)
    told = score([path_of(first), mistaken], traffic, BEGAN_US, until_us)
    assert told == Score(driven, 1, 1)
    assert "1 were followed, 1 paths are mistaken" in summary(told)


def test_the_map_is_an_svg_with_every_camera_and_a_line_per_road_driven() -> None:
    paths = [path_of(number) for number in range(5)]
    drawing = ElementTree.fromstring(draw_map(paths, "<caption>"))
    texts = [element.text for element in drawing.iter() if element.tag.endswith("text")]
    assert texts == [*CAMERAS, "<caption>"]
    lines = [e for e in drawing.iter() if e.tag.endswith("line") and e.get("stroke-opacity")]
    assert len(lines) == sum(len(ROUTES[path.route]) - 1 for path in paths)


@pytest.mark.parametrize("width", [80, 120])
def test_the_picture_fits_the_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    console.print(draw([path_of(7)], Score(1, 1, 0), path_of(7).times_us[-1], width))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue()
    assert "…" not in shown and max(map(len, shown.splitlines())) <= width
    assert ("arrived" in shown) == (width == 120)


def test_the_town_shows_its_cameras_and_who_arrived_of_late() -> None:
    path = path_of(7)
    shown = draw_town([path], path.times_us[-1] + 5 * SECOND).plain
    assert all(name in shown for name in CAMERAS) and "●" in shown
