"""The demo's picture: a map of the plant, the alarms, the plume's ways, a few figures. In: a `DemoStatus`. Out: something Rich prints."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.clock import SECOND, parse_timestamp
from penstock.sensors.demo_plant import ALARM_PPM, ALARMS, LATEST, OWN_QUESTIONS, SILENT, SILENT_AFTER_S, TRACKS
from penstock.sensors.signals import HEIGHT_M, PLACES, WIDTH_M

KEPT = 50


@dataclass(frozen=True, slots=True)
class Track:
    """Three probes that the plume reached one after the other."""

    probes: tuple[int, int, int]
    place: str
    began_us: int
    ended_us: int

    def __str__(self) -> str:
        first, second, third = self.probes
        return f"probe {first} -> {second} -> {third} in {(self.ended_us - self.began_us) / SECOND:.0f} s"


class Tracks:
    """The newest way over each three probes; filled by a subscription while a view reads."""

    def __init__(self) -> None:
        self._newest: dict[tuple[int, int, int], Track] = {}
        self._lock = threading.Lock()

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Take new rows. A probe's reading can tremble around the threshold: such a front is told once."""
        with self._lock:
            for row in rows:
                probes, ended_us = (row["first"], row["second"], row["third"]), parse_timestamp(row["ts"])
                track = Track(probes, row["place"], parse_timestamp(row["began"]), ended_us)
                known = self._newest.get(track.probes)
                if known is None or track.ended_us > known.ended_us:
                    self._newest[track.probes] = track
            kept = sorted(self._newest.values(), key=lambda track: -track.ended_us)[:KEPT]
            self._newest = {track.probes: track for track in kept}

    def newest(self) -> list[Track]:
        """Newest first."""
        with self._lock:
            return list(self._newest.values())


# From clean air over the alarm's threshold to the leak itself.
_SCALE_PPM = np.array([0.0, 10.0, float(ALARM_PPM), 100.0, 300.0])
_SCALE_RGB = np.array([[18, 40, 44], [28, 92, 70], [196, 160, 32], [214, 96, 28], [208, 32, 48]])


@dataclass(frozen=True, slots=True)
class DemoStatus:
    """What the server answered just now. Rows are dictionaries by column name."""

    latest: list[dict[str, Any]]
    alarms: list[dict[str, Any]]
    cycle: int | None
    readings_per_s: float | None = None
    cycle_ms: float | None = None
    pushed: int = 0
    push_delay_ms: float | None = None
    silent: list[dict[str, Any]] = field(default_factory=list)
    tracks: list[Track] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ProbeAlarm:
    """One probe that was above the threshold within the last minute."""

    probe_id: int
    location: str
    now_ppm: float
    peak_ppm: float


_WIDE = 114  # columns that the map and the panels need side by side


@dataclass(frozen=True, slots=True)
class DemoScreen:
    """Draws moments. `command` is how this user calls penstock; `width` and `height` are the terminal's."""

    url: str
    command: str = "penstock"
    width: int = 116
    height: int = 34

    def draw(self, moment: DemoStatus) -> RenderableType:
        wide = self.width >= _WIDE
        columns = 62 if wide else min(self.width - 4, 76)
        help_text = self.help(wide and self.height >= 22)
        rows = max(6, min(21, self.height - 3 - help_text.plain.count("\n") - (1 if wide else 2)))
        drawn, title = draw_map(moment.latest, columns, rows), "the plant, ppm of gas"
        plant = Panel(drawn, title=title, subtitle="east >", border_style="dim", width=columns + 4)
        if not wide:
            return Group(plant, Text(plain_line(moment), no_wrap=True, overflow="ellipsis"), help_text)
        tracks = 6 if rows >= 16 else 0
        panels = [self.alarm_panel(moment, rows - tracks - 4), self.figures(moment)]
        if tracks:
            panels.insert(1, self.track_panel(moment, tracks))
        beside = Table.grid(padding=(0, 1))
        beside.add_row(plant, Group(*panels))
        return Group(beside, help_text)

    def alarm_panel(self, moment: DemoStatus, height: int) -> Panel:
        table = Table(box=None, expand=True, padding=(0, 1, 0, 0))
        table.add_column("place")
        table.add_column("probe")
        table.add_column("now", justify="right")
        table.add_column("peak", justify="right")
        found = alarms_by_probe(moment)
        shown = max(1, height - 4)
        for alarm in found[:shown]:
            style = "bold red" if alarm.now_ppm > ALARM_PPM else "yellow"
            now, peak = f"{alarm.now_ppm:.0f}", f"{alarm.peak_ppm:.0f}"
            table.add_row(alarm.location, str(alarm.probe_id), now, peak, style=style)
        if len(found) > shown:
            table.add_row(f"and {len(found) - shown} more", style="dim")
        if not found:
            table.add_row("all quiet", style="green")
        return _panel(table, f"above {ALARM_PPM} ppm in the last minute", max(5, height))

    def track_panel(self, moment: DemoStatus, height: int) -> Panel:
        text = Text(no_wrap=True, overflow="ellipsis")
        for track in moment.tracks[: height - 2]:
            text.append(f"{track}, {track.place}\n")
        if not moment.tracks:
            text.append("nowhere yet: a way over three probes\ntakes the plume 20 seconds or more", "dim")
        return _panel(text, "the plume passed", height)

    def figures(self, moment: DemoStatus) -> Panel:
        silent = silent_probes(moment)
        said = f"silent for {SILENT_AFTER_S} s: {', '.join(map(str, silent))}" if silent else "none silent"
        grid = Table.grid(padding=(0, 2))
        grid.add_row("probes", f"{len(moment.latest)}, {said}", style="bold red" if silent else None)
        grid.add_row("readings", _figure(moment.readings_per_s, "/s"))
        grid.add_row("cycle", f"{'-' if moment.cycle is None else moment.cycle}, {_figure(moment.cycle_ms, ' ms')}")
        grid.add_row("alarm rows", f"{moment.pushed} pushed, {_figure(moment.push_delay_ms, ' ms later')}")
        return _panel(grid, "the server")

    def help(self, full: bool) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        if full:
            text.append("Sixty simulated probes write to a log on disk. Standing queries over it: ")
            text.append(f"{LATEST}, {ALARMS}, {TRACKS}, {SILENT}.\n")
        text.append("This view only asks ")
        text.append(self.url, "bold")
        text.append(" over HTTP. Ask your own questions from a second terminal:\n")
        for line in own_questions(self.command, self.url)[: None if full else 1]:
            text.append(f"  {line}\n", "cyan")
        text.append("Ctrl-C ends the demo and its server.")
        return text


def _panel(content: RenderableType, title: str, height: int | None = None) -> Panel:
    return Panel(content, title=title, border_style="dim", width=46, height=height)


def own_questions(command: str, url: str) -> list[str]:
    """Commands to type in a second terminal."""
    where = "" if url.endswith(":8470") else f" --url {url}"
    return [f'{command} sql{where} -c "{question}"' for question in OWN_QUESTIONS]


def draw_map(latest: list[dict[str, Any]], columns: int, rows: int) -> Text:
    """Each probe's newest reading as a number where it stands; the colours between probes are interpolated."""
    letters = np.full((rows, columns), " ")
    numbers = np.zeros((rows, columns), dtype=bool)
    for probe in latest:
        word = f"{probe['ppm']:.0f}"
        row, first = _spot(word, probe["x"], probe["y"], columns, rows)
        letters[row, first : first + len(word)] = list(word)
        numbers[row, first : first + len(word)] = True
    for name, (x, y) in PLACES.items():
        row, first = _spot(name, x, y, columns, rows)
        # Near its place, where it hides no number and touches no other name; else the map does without it.
        for tried in (row, row + 1, row - 1):
            around = slice(max(first - 1, 0), first + len(name) + 1)
            if 0 <= tried < rows and (letters[tried, around] == " ").all():
                letters[tried, first : first + len(name)] = list(name)
                break
    colours = _colours(_field(latest, columns, rows))
    text = Text(no_wrap=True)
    for row in range(rows):
        for column in range(columns):
            red, green, blue = colours[row, column]
            front = "bold white" if numbers[row, column] else "grey70"
            text.append(str(letters[row, column]), f"{front} on rgb({red},{green},{blue})")
        if row < rows - 1:
            text.append("\n")
    return text


def _spot(word: str, x: float, y: float, columns: int, rows: int) -> tuple[int, int]:
    """Row and first column of a word that is centred on a place of the plant; north is up."""
    row = min(max(int((1 - y / HEIGHT_M) * rows), 0), rows - 1)
    first = int(x / WIDTH_M * columns) - len(word) // 2
    return row, min(max(first, 0), columns - len(word))


def alarms_by_probe(moment: DemoStatus) -> list[ProbeAlarm]:
    """One alarm per probe of the answer, the highest reading now first."""
    now = {row["probe_id"]: row["ppm"] for row in moment.latest}
    peaks: dict[int, ProbeAlarm] = {}
    for row in moment.alarms:
        known = peaks.get(row["probe_id"])
        if known is None or row["ppm"] > known.peak_ppm:
            current = now.get(row["probe_id"], row["ppm"])
            peaks[row["probe_id"]] = ProbeAlarm(row["probe_id"], row["location"], current, row["ppm"])
    return sorted(peaks.values(), key=lambda alarm: -alarm.now_ppm)


def silent_probes(moment: DemoStatus) -> list[int]:
    """Probes that fell silent and have not spoken again."""
    newest = {row["probe_id"]: row["ts"] for row in moment.latest}
    return sorted({row["probe_id"] for row in moment.silent if newest.get(row["probe_id"], row["ts"]) <= row["ts"]})


def plain_line(moment: DemoStatus) -> str:
    """The moment in one line, for output that is no terminal or a small one."""
    found = alarms_by_probe(moment)
    worst = f", highest {found[0].location} (probe {found[0].probe_id}) {found[0].now_ppm:.0f} ppm" if found else ""
    passed = f"; the plume passed {moment.tracks[0]}" if moment.tracks else ""
    silent = silent_probes(moment)
    missing = f"; silent: {', '.join(map(str, silent))}" if silent else ""
    return (
        f"cycle {moment.cycle}  {len(moment.latest)} probes  {_figure(moment.readings_per_s, ' readings/s')}  "
        f"{_figure(moment.cycle_ms, ' ms per cycle')}  {len(found)} in alarm{worst}{passed}{missing}"
    )


def _figure(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:,.0f}{unit}"


def _field(latest: list[dict[str, Any]], columns: int, rows: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """ppm of each cell of the map: the probes' readings, weighted by nearness."""
    if not latest:
        return np.zeros((rows, columns))
    at = np.array([[probe["x"], probe["y"]] for probe in latest])
    ppm = np.array([probe["ppm"] or 0.0 for probe in latest])
    x = (np.arange(columns) + 0.5) / columns * WIDTH_M
    y = (1 - (np.arange(rows) + 0.5) / rows) * HEIGHT_M
    square = (x[None, :, None] - at[:, 0]) ** 2 + (y[:, None, None] - at[:, 1]) ** 2
    weight = 1.0 / (square + 60.0) ** 2
    return np.asarray((weight * ppm).sum(axis=2) / weight.sum(axis=2), dtype=np.float64)


def _colours(ppm: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    channels = [np.interp(ppm, _SCALE_PPM, _SCALE_RGB[:, channel]) for channel in range(3)]
    return np.stack(channels, axis=-1).astype(np.int64)
