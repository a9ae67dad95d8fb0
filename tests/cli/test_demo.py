"""The demo's plant and picture, without a server. tests/live runs the whole of it."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from penstock.cli import demo
from penstock.cli.demo_view import (
    DemoScreen,
    DemoStatus,
    Tracks,
    alarms_by_probe,
    own_questions,
    plain_line,
    silent_probes,
)
from penstock.sensors import demo_plant
from penstock.sql.parse import parse_script

NOW = datetime(2026, 5, 3, 12, 0, 41, tzinfo=UTC)


def moment(**ppm_of_probe: float) -> DemoStatus:
    latest = [
        {
            "probe_id": p.probe_id,
            "location": p.location,
            "x": p.x,
            "y": p.y,
            "ppm": ppm_of_probe.get(f"p{p.probe_id}", 2.0),
            "ts": NOW,
        }
        for p in demo_plant.probes()
    ]
    return DemoStatus(
        latest, [row for row in latest if row["ppm"] > demo_plant.ALARM_PPM], cycle=7, readings_per_s=120.0
    )


def drawn(shown: DemoStatus, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(DemoScreen("http://127.0.0.1:8470", "penstock", width, height).draw(shown))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_the_plant_has_sixty_probes_at_sixty_places() -> None:
    probes = demo_plant.probes()
    assert len({p.probe_id for p in probes}) == len({(p.x, p.y) for p in probes}) == 60


def test_every_statement_of_the_demo_is_read_by_the_parser() -> None:
    for text in (demo_plant.DEFINITIONS, demo_plant.QUERIES, demo_plant.insert_statement(), *demo_plant.OWN_QUESTIONS):
        assert parse_script(text)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (116, 34), (140, 26), (200, 60)])
def test_the_picture_fits_the_terminal(width: int, height: int) -> None:
    lines = drawn(moment(p34=88.0), width, height)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert any("88" in line for line in lines)


def test_alarms_are_one_per_probe_with_the_newest_and_the_highest_reading() -> None:
    shown = moment(p1=50.0, p2=40.0)
    shown.alarms.append({**shown.alarms[0], "ppm": 90.0})
    found = alarms_by_probe(shown)
    assert [(a.probe_id, a.now_ppm, a.peak_ppm) for a in found] == [(1, 50.0, 90.0), (2, 40.0, 40.0)]


def way(first: int, second: int, third: int, began_s: int, seconds: int) -> dict[str, object]:
    begin = NOW + timedelta(seconds=began_s)
    began, ended = (f"{t:%Y-%m-%dT%H:%M:%S}Z" for t in (begin, begin + timedelta(seconds=seconds)))
    return {"first": first, "second": second, "third": third, "place": "canteen", "began": began, "ts": ended}


def test_the_newest_ways_of_the_plume_are_shown_each_once() -> None:
    tracks = Tracks()
    tracks.add([way(12, 17, 23, 0, 41), way(24, 25, 26, 10, 30)])
    tracks.add([way(12, 17, 23, 2, 45)])
    assert [str(track) for track in tracks.newest()] == ["probe 12 -> 17 -> 23 in 45 s", "probe 24 -> 25 -> 26 in 30 s"]
    shown = replace(moment(), tracks=tracks.newest())
    assert any("probe 12 -> 17 -> 23 in 45 s, canteen" in line for line in drawn(shown, 116, 34))
    assert "the plume passed probe 12 -> 17 -> 23 in 45 s" in plain_line(shown)


def test_a_probe_is_silent_until_it_speaks_again() -> None:
    gaps = [{"probe_id": 5, "ts": NOW}, {"probe_id": 6, "ts": NOW - timedelta(minutes=1)}]
    assert silent_probes(replace(moment(), silent=gaps)) == [5]


def test_before_the_first_reading_there_is_a_picture_too() -> None:
    assert any("all quiet" in line for line in drawn(DemoStatus([], [], None), 116, 34))
    assert "0 in alarm" in plain_line(DemoStatus([], [], None))


def test_the_address_is_part_of_the_commands_only_where_it_is_not_the_usual_one() -> None:
    assert "--url" not in own_questions("penstock", "http://127.0.0.1:8470")[0]
    assert "--url http://127.0.0.1:9000" in own_questions("penstock", "http://127.0.0.1:9000")[0]


def test_commands_are_shown_as_the_user_can_type_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / ".venv" / "bin" / "penstock"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo.sys, "argv", [str(program)])
    monkeypatch.setenv("PATH", "")
    assert demo.command_name() == ".venv/bin/penstock"
    monkeypatch.setenv("PATH", str(program.parent))
    assert demo.command_name() == "penstock"
