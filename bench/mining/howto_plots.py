"""The plots of docs/howto/mining.md, from the answers of that page's own statements: `python -m bench.mining.howto_plots`.

Beside them it asks for the series that the examples look at, and for the scores of all elements, of which the band is drawn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bench.local_database import local_database
from penstock.database.database import Database
from tests.support.mining_page import BY_SPARK, PAGE
from tests.support.real_series import push_howto

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "img"
ALL_SCORES = 0.1
"""The least threshold that there is: nearly all elements have such a score."""
CHANNELS = 1024
GRAY, RED, BLUE, ORANGE = "#777777", "#c0392b", "#2471a3", "#f0b27a"
Row = dict[str, Any]


class Answers:
    """A database with the series of the page, and answers of its queries."""

    def __init__(self, database: Database, drain: Any) -> None:
        self._database = database
        blocks = re.findall(r"^```sql\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
        self._sql = {name: block for block in blocks for name in re.findall(r"CREATE QUERY (\w+) ", block)}
        for block in blocks:
            if any(f"CREATE QUERY {name} " in block for name in BY_SPARK):
                continue
            database.execute(re.sub(r"^SUBSCRIBE .*$", "", block, flags=re.MULTILINE))
        push_howto(database, CHANNELS)
        drain()

    def of(self, name: str) -> list[Row]:
        """The structs that a query of the page answers."""
        return [next(iter(row.values())) for row in self.rows(name)]

    def rows(self, name: str) -> list[Row]:
        """The answer of a query of the page."""
        return list(self._database.invoke(name).table.to_pylist())

    def ask(self, sql: str) -> list[Row]:
        table = self._database.execute(sql).table
        assert table is not None
        return list(table.to_pylist())

    def series(self, name: str) -> tuple[list[datetime], list[float]]:
        """What the call of a query sees; a slot without readings has NaN."""
        every = re.search(r"every => (\d+ \w+)", self._sql[name])
        assert every is not None
        rows = self._asked(name, f"SERIES(value, every => {every[1]})")
        return [row["at"] for row in rows], [np.nan if row["value"] is None else row["value"] for row in rows]

    def scores(self, name: str) -> list[Row]:
        """Of the ANOMALIES of a query: nearly all elements with their bands, those of its own threshold."""
        call = re.search(r"ANOMALIES\(.*?\)", self._sql[name])
        assert call is not None
        threshold = float((re.findall(r", score => ([\d.]+)", call[0]) or ["4"])[0])
        bare = re.sub(r", (score|quiet) => [\w.]+( HOURS)?", "", call[0])
        rows = self._asked(name, f"{bare[:-1]}, score => {ALL_SCORES})")
        for row in rows:
            width = (row["upper"] - row["expected"]) * threshold / ALL_SCORES
            row |= {"lower": row["expected"] - width, "upper": row["expected"] + width}
        return rows

    def numbers(self, name: str, argument: str) -> list[float]:
        """The ARRAY that a query gives an argument."""
        found = re.search(rf"{argument} => ARRAY\[(.*?)\]", self._sql[name])
        assert found is not None
        return [float(level) for level in found[1].split(",")]

    def _asked(self, name: str, call: str) -> list[Row]:
        """Another call over the rows and the window of a query."""
        rows = self._sql[name][self._sql[name].index("FROM series") :]
        rows = rows[: rows.index(";")]
        return [row["found"] for row in self.ask(f"SELECT UNNEST({call}) AS found {rows}")]


@contextmanager
def picture(name: str, size: tuple[float, float], rows: int, columns: int) -> Iterator[Any]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False)
    yield axes.ravel()
    for axis in axes.ravel():
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    figure.tight_layout()
    figure.savefig(PICTURES / f"{name}.png", dpi=100)
    pyplot.close(figure)


def draw_series(answers: Answers) -> None:
    with picture("mining-series", (9, 6), 2, 1) as (days, alarm):
        window = "FROM series WHERE name = 'machine_temperature_system_failure' BEGIN (NOW - 30 DAYS) END (NOW)"
        rows = [row["a"] for row in answers.ask(f"SELECT UNNEST(SERIES(value)) AS a {window}")]
        days.plot([row["at"] for row in rows], [row["value"] for row in rows], ".", color=GRAY, markersize=1.5)
        days.plot([], [], ".", color=GRAY, label="readings")
        for row in (found := answers.of("days")):
            days.hlines(row["value"], row["at"], row["at"] + timedelta(days=1), color=BLUE, linewidth=2.5)
        days.plot([], [], color=BLUE, label=f"SERIES, {len(found)} whole days")
        days.set_title("days: temperature of a machine, by whole days", fontsize=9)
        days.set_ylabel("degrees F", fontsize=8)
        days.legend(fontsize=8, loc="lower left")
        call = f"ANOMALIES(value, every => 1 HOUR, history => 2 DAYS, score => {ALL_SCORES})"
        scores = answers.ask(
            f"SELECT name, UNNEST({call}) AS a FROM series WHERE kind = 'road' GROUP BY name BEGIN (NOW - 7 DAYS) END (NOW)"
        )
        for name, color in (("occupancy_t4013", GRAY), ("speed_t4013", BLUE)):
            own = [row["a"] for row in scores if row["name"] == name]
            alarm.plot(
                [row["at"] for row in own], [row["score"] for row in own], color=color, linewidth=0.9, label=name
            )
        for row in answers.rows("alarm"):
            newest = max(each["a"]["at"] for each in scores if each["name"] == row["name"])
            alarm.plot([newest], [row["score"]], "o", color=RED, label=f"alarm: {row['name']} {row['score']:.2f}")
        alarm.axhline(1, color=RED, linewidth=0.8, linestyle=":")
        alarm.set_title("alarm: ANOMALY is the score of the newest hour; the lines are those of all hours", fontsize=9)
        alarm.set_ylabel("score", fontsize=8)
        alarm.legend(fontsize=8, loc="upper left")


def draw_anomalies(answers: Answers) -> None:
    titles = {
        "hot_or_cold": ("temperature of a machine by hour", "degrees F"),
        "odd_hours": ("occupancy of a road by hour", "percent"),
    }
    with picture("mining-anomalies", (9, 6), 2, 1) as axes:
        for axis, (name, (title, unit)) in zip(axes, titles.items(), strict=True):
            axis.plot(*answers.series(name), color=GRAY, linewidth=0.9, label="SERIES")
            band = answers.scores(name)
            at = [row["at"] for row in band]
            sides = [bridged(at, [row[key] for row in band]) for key in ("lower", "upper")]
            axis.fill_between(
                at,
                *sides,
                color=BLUE,
                alpha=0.18,
                linewidth=0,
                label="lower to upper",
            )
            found = answers.of(name)
            axis.plot([row["at"] for row in found], [row["value"] for row in found], "o", color=RED, label="ANOMALIES")
            for row in found:
                axis.annotate(
                    f"{row['score']:.1f}",
                    (row["at"], row["value"]),
                    (6, 4),
                    textcoords="offset points",
                    fontsize=8,
                    color=RED,
                )
            axis.set_title(f"{name}: {title}; the number is the score", fontsize=9)
            axis.set_ylabel(unit, fontsize=8)
            axis.legend(fontsize=8, ncols=3, loc="upper center")
            axis.margins(y=0.18)


def bridged(at: list[datetime], values: list[float]) -> list[float]:
    """Without the last value before a gap of hours, so that no band is drawn across it."""
    ends = [later - earlier > timedelta(hours=6) for earlier, later in pairwise(at)]
    return [np.nan if end else value for end, value in zip([*ends, False], values, strict=True)]


def draw_rhythm(answers: Answers) -> None:
    with picture("mining-rhythm", (9, 6.5), 3, 1) as (usual, rhythm, nights):
        rows = answers.of("usual")
        places = [row["place"] for row in rows]
        sides = [[row["expected"] - row["lower"] for row in rows], [row["upper"] - row["expected"] for row in rows]]
        usual.errorbar(places, [row["expected"] for row in rows], sides, fmt="o", color=BLUE, capsize=6)
        usual.set_xticks(places, ["0 to 6 h", "6 to 12 h", "12 to 18 h", "18 to 24 h"])
        usual.set_title("usual: BASELINE of the temperature of an office, median and 90 %", fontsize=9)
        usual.set_ylabel("degrees F", fontsize=8)
        at, values = answers.series("rhythm")
        rhythm.plot(at, values, color=GRAY, linewidth=0.7)
        for number, (row, color) in enumerate(zip(answers.of("rhythm"), (BLUE, RED), strict=False)):
            begin = at[-1]
            while begin > at[0]:
                rhythm.axvline(begin, color=color, linewidth=1.2 if number else 0.7, linestyle="-" if number else ":")
                begin -= timedelta(seconds=row["seconds"])
            label = f"each {row['seconds'] / 3600:.1f} hours (strength {row['strength']:.2f})"
            rhythm.plot([], [], color=color, linestyle="-" if number else ":", label=label)
        rhythm.set_title("rhythm: PERIODS of the occupancy of a road, counted back from the end", fontsize=9)
        rhythm.set_ylabel("percent", fontsize=8)
        rhythm.legend(fontsize=8, loc="upper center")
        draw_nights(answers, nights)


def draw_nights(answers: Answers, axis: Any) -> None:
    """Symbols by day and place; frames where the pattern says which."""
    levels = answers.numbers("nights", "levels")
    at, values = answers.series("nights")
    days = sorted({moment.date() for moment in at})
    grid = np.full((12, len(days)), np.nan)
    for moment, value in zip(at, values, strict=True):
        if not np.isnan(value):
            grid[moment.hour // 2, days.index(moment.date())] = np.searchsorted(levels, value, side="right")
    axis.imshow(grid, aspect="auto", cmap="Blues", vmin=-0.5, vmax=len(levels))
    for row, column in zip(*np.nonzero(~np.isnan(grid)), strict=True):
        axis.text(column, row, f"{grid[row, column]:.0f}", ha="center", va="center", fontsize=6)
    (pattern,) = answers.of("nights")
    for item in pattern["items"]:
        axis.axhspan(item["place"] - 0.5, item["place"] + 0.5, fill=False, edgecolor=RED, linewidth=1.5)
    axis.set_xticks(range(0, len(days), 2), [f"{day:%m-%d}" for day in days[::2]])
    axis.set_yticks(range(0, 12, 3), [f"{2 * place} h" for place in range(0, 12, 3)])
    share = f"{pattern['count']} of {pattern['segments']} whole days"
    axis.set_title(f"nights: symbols of the same road; PERIODIC_PATTERNS: the framed places on {share}", fontsize=9)


def draw_changes(answers: Answers) -> None:
    with picture("mining-changes", (9, 5.5), 2, 1) as (changed, coming):
        at, values = answers.series("changed")
        changed.plot(at, values, color=GRAY, linewidth=0.7, label="SERIES")
        found = answers.of("changed")
        edges = [at[0], *(row["at"] for row in found), at[-1]]
        means = [found[0]["before"], *(row["after"] for row in found)]
        changed.hlines(means, edges[:-1], edges[1:], color=BLUE, linewidth=2, label="before, after")
        for row in found:
            changed.axvline(row["at"], color=RED, linewidth=1.2)
        changed.plot([], [], color=RED, label="CHANGE_POINTS")
        changed.set_title("changed: speed on a road by hour", fontsize=9)
        changed.set_ylabel("miles an hour", fontsize=8)
        changed.legend(fontsize=8, ncols=3, loc="lower left")
        at, values = answers.series("next_hours")
        coming.plot(at[-72:], values[-72:], color=GRAY, marker=".", linewidth=0.9, label="SERIES")
        rows = answers.of("next_hours")
        ahead = [row["at"] for row in rows]
        coming.fill_between(
            ahead,
            *([row[key] for row in rows] for key in ("lower", "upper")),
            color=ORANGE,
            alpha=0.6,
            linewidth=0,
            label="lower to upper",
        )
        coming.plot(ahead, [row["value"] for row in rows], color=RED, marker=".", label="FORECAST")
        coming.set_title("next_hours: temperature of an office, the last three days and three hours ahead", fontsize=9)
        coming.set_ylabel("degrees F", fontsize=8)
        coming.legend(fontsize=8, ncols=3, loc="lower center")


def draw_courses(answers: Answers) -> None:
    """Symbols by day and half an hour, and the sequences with the days that have them."""
    levels = answers.numbers("courses", "levels")
    at, values = answers.series("courses")
    days = sorted({moment.date() for moment in at})
    grid = np.full((len(days), 48), np.nan)
    for moment, value in zip(at, values, strict=True):
        if not np.isnan(value):
            grid[days.index(moment.date()), 2 * moment.hour + moment.minute // 30] = np.searchsorted(
                levels, value, "right"
            )
    with picture("mining-courses", (9, 4), 1, 2) as (strip, bars):
        image = strip.imshow(grid, aspect="auto", cmap="viridis", vmin=0, vmax=2)
        strip.set_xticks(range(0, 48, 12), [f"{hour} h" for hour in range(0, 24, 6)])
        strip.set_yticks(range(0, len(days), 3), [f"{day:%m-%d}" for day in days[::3]])
        colors = [image.cmap(image.norm(symbol)) for symbol in range(3)]
        for color, word in zip(colors, ("0: slow", "1: normal", "2: fast"), strict=True):
            strip.plot([], [], "s", color=color, label=word)
        strip.legend(fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False)
        strip.set_xlabel("courses: speed on a road, a symbol by half an hour", fontsize=9)
        found = answers.of("courses")[::-1]
        bars.barh([", ".join(row["items"]) for row in found], [row["streams"] for row in found], color=BLUE)
        for place, row in enumerate(found):
            bars.text(
                row["streams"] - 0.2, place, f"{row['share']:.0%}", color="white", ha="right", va="center", fontsize=8
            )
        bars.set_xlabel("FREQUENT_SEQUENCES: days that have the sequence", fontsize=9)


def draw_matches(answers: Answers) -> None:
    """The series with what was found, and each find over the shape, both without height and size."""
    shape = np.array(answers.numbers("rush_hours", "shape"))
    at, values = answers.series("rush_hours")
    with picture("mining-matches", (9, 5.5), 2, 1) as (whole, each):
        whole.plot(at, values, color=GRAY, linewidth=0.8, label="SERIES")
        each.plot(scaled(shape), color="black", linewidth=3, alpha=0.35, label="shape")
        for number, row in enumerate(answers.of("rush_hours")):
            first = at.index(row["at"])
            own = slice(first, first + len(shape))
            (line,) = each.plot(
                scaled(np.array(values[own])), marker=".", label=f"{row['at']:%m-%d %H h}: {row['distance']:.2f}"
            )
            whole.plot(
                at[own], values[own], color=line.get_color(), linewidth=3, label="MATCHES" if number == 0 else None
            )
        whole.set_title("rush_hours: occupancy of a road by hour", fontsize=9)
        whole.set_ylabel("percent", fontsize=8)
        whole.legend(fontsize=8, loc="upper left")
        each.set_title(
            "the shape and what was found, in deviations from the mean; the number is the distance", fontsize=9
        )
        each.set_xticks(range(len(shape)), [f"{hour + 1}. hour" for hour in range(len(shape))])
        each.legend(fontsize=8, loc="upper left")


def scaled(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = (values - values.mean()) / values.std()
    return found


def draw_traffic(answers: Answers) -> None:
    """All rows; each has the colour of the centre that is nearest in deviations of the two dimensions."""
    (row,) = answers.ask("SELECT SERIES(speed) AS s, SERIES(occupancy) AS o FROM loops BEGIN (NOW - 30 DAYS) END (NOW)")
    points = np.array([[s["value"], o["value"]] for s, o in zip(row["s"], row["o"], strict=True)])
    found = answers.of("traffic")
    centers = np.array([row["center"] for row in found])
    low, high = np.percentile(points, [25, 75], axis=0)
    off = (points[:, None, :] - centers[None, :, :]) / ((high - low) / 1.349)
    nearest = np.square(off).sum(axis=2).argmin(axis=1)
    with picture("mining-traffic", (7, 4.5), 1, 1) as (axis,):
        for number, (row, color) in enumerate(zip(found, (BLUE, ORANGE, RED), strict=True)):
            own = points[nearest == number]
            axis.plot(
                own[:, 0], own[:, 1], ".", color=color, markersize=3, label=f"{row['size']} rows, {row['share']:.0%}"
            )
            axis.plot(*row["center"], "X", color="black", markersize=9)
        axis.plot([], [], "X", color="black", label="center")
        axis.set_title("traffic: CLUSTERS of speed and occupancy on a road", fontsize=9)
        axis.set_xlabel("speed, miles an hour", fontsize=8)
        axis.set_ylabel("occupancy, percent", fontsize=8)
        axis.legend(fontsize=8)


def draw_spectra(answers: Answers) -> None:
    (row,) = answers.rows("spectra")
    (newest,) = answers.ask(
        "SELECT COUNT(*) AS n, VECTOR_SUM(counts) AS c FROM detectors BEGIN (NOW - 30 SECONDS) END (NOW)"
    )
    assert newest["n"] == 1
    with picture("mining-spectra", (9, 5.5), 2, 1) as (minute, whole):
        minute.step(range(CHANNELS), newest["c"], color=GRAY, linewidth=0.6, label="one minute")
        minute.step(range(CHANNELS), row["mean"], color=RED, linewidth=1.2, label="VECTOR_AVG")
        minute.set_title("spectra: counts of a minute by channel", fontsize=9)
        whole.step(range(CHANNELS), row["total"], color=BLUE, linewidth=0.9, label="VECTOR_SUM")
        whole.set_yscale("log")
        whole.set_title("the sum of 690 minutes: the hill at channel 560 is the line of potassium", fontsize=9)
        for axis in (minute, whole):
            axis.set_ylabel("counts", fontsize=8)
            axis.legend(fontsize=8)


DRAWN = (
    draw_series,
    draw_anomalies,
    draw_rhythm,
    draw_courses,
    draw_changes,
    draw_matches,
    draw_traffic,
    draw_spectra,
)


def main() -> None:
    with local_database() as (database, engine):
        answers = Answers(database, engine.drain)
        for draw in DRAWN:
            draw(answers)
    for path in sorted(PICTURES.glob("mining-*.png")):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
