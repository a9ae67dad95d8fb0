"""The demo's plant and picture, without a server. tests/pipeline runs the whole of it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from penstock.cli import demo, demo_plant
from penstock.cli.demo_view import Moment, View, alarms_by_probe, own_questions, plain_line
from penstock.sql.parse import parse_script


def moment(**ppm_of_probe: float) -> Moment:
    latest = [
        {
            "probe_id": p.probe_id,
            "location": p.location,
            "x": p.x,
            "y": p.y,
            "ppm": ppm_of_probe.get(f"p{p.probe_id}", 2.0),
        }
        for p in demo_plant.probes()
    ]
    return Moment(latest, [row for row in latest if row["ppm"] > demo_plant.ALARM_PPM], cycle=7, readings_per_s=120.0)


def drawn(shown: Moment, width: int, height: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=height)
    console.print(View("http://127.0.0.1:8470", "penstock", width, height).draw(shown))
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


def test_before_the_first_reading_there_is_a_picture_too() -> None:
    assert any("all quiet" in line for line in drawn(Moment([], [], None), 116, 34))
    assert "0 in alarm" in plain_line(Moment([], [], None))


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
