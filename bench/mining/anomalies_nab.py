"""ANOMALIES: the score of the Numenta Anomaly Benchmark, and spikes that were planted, against River's scorers.

Alarms of all are counted in the same way: none that follows another high score within twelve hours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.mining import Figures
from bench.mining.calls import HOUR_US, Call, asked_in_sql, same, series_of, share_in_sql, slotted
from bench.mining.generated import Planted, noise, spikes, wave
from bench.mining.nab import Labelled, labelled_series, score
from bench.mining.peers import ask_peer
from bench.report import Report
from bench.tables import write_table
from penstock.operators.mining.series import Ints

EVERY_US = 300_000_000
DAY = 288
QUIET = DAY // 2
CALLS = {
    "gaussian": Call("anomalies", EVERY_US, {"robust": False, "history": 21 * DAY, "score": 3.0, "quiet": QUIET}),
    "robust": Call("anomalies", EVERY_US, {"history": 21 * DAY, "score": 4.0, "smooth": 12, "quiet": QUIET}),
}
"""One set of arguments each, for all series. They were chosen on these series: see docs/explanation/mining-measured.md."""
GRACE, TREES_QUANTILE, RANDOM_RUNS = 100, 0.995, 200
SEED = 1

SETS = ("white", "season", "autocorrelated", "heavy tails", "level shifts")
COUNT, SERIES, SPIKES, HISTORY, SEASON = 4000, 20, 20, 500, 96
SIZES = (8.0, 12.0)
PLANTED_SCORE = 5.0


def measure_anomalies(report: Report) -> Figures:
    figures = measure_nab(report)
    return figures | measure_planted(report)


def measure_nab(report: Report) -> Figures:
    known = labelled_series()
    if not known:
        report.say("[bold red]NAB IS LEFT OUT: its seven series are not there; PENSTOCK_SERIES names their folder")
        return {}
    alarms: dict[str, dict[str, Ints]] = {name: {} for name in CALLS}
    equal = []
    for series, labelled in known.items():
        answers = asked_in_sql(CALLS, (labelled.times, labelled.values))
        slots = slotted(labelled.times, labelled.values, EVERY_US)
        for name, call in CALLS.items():
            # The newest slot is not over: SQL leaves it out.
            equal.append(same(answers[name], [line for line in call.find(slots) if line[0] != slots.times[-1]]))
            alarms[name][series] = labelled.row_of(np.array([line[0] for line in answers[name]], np.int64), EVERY_US)
    alarms |= _alarms_of_river(report, known)
    figures: Figures = {"nab_sql_equal_share": float(np.mean(equal))}
    table = []
    for name, by_series in alarms.items():
        own = {series: score([(known[series], by_series[series])]) for series in known}
        figures[f"nab_score_{name}"] = score([(known[series], by_series[series]) for series in known])
        table.append({"scorer": name, "all": figures[f"nab_score_{name}"], **own})
    figures["nab_score_random"] = _random_score(known, alarms["robust"])
    table.append({"scorer": "random", "all": figures["nab_score_random"]})
    write_table("mining_nab", "NAB standard score, 7 series; 0 is silence", table)
    _draw(known, alarms)
    return figures


def _alarms_of_river(report: Report, known: Mapping[str, Labelled]) -> dict[str, dict[str, Ints]]:
    """Its Gaussian scorer over as many rows as 21 days have, and its trees, with one setting each."""
    windows = {s: one.rows_in(21 * DAY * EVERY_US) for s, one in known.items()}
    task = {"gaussian": windows, "grace": GRACE, "trees_quantile": TREES_QUANTILE, "seed": SEED}
    found = ask_peer(report, "river", task, {series: one.values for series, one in known.items()})
    if found is None:
        return {}
    least = math.erf(3 / math.sqrt(2))
    high = {
        "river_gaussian": {s: np.array(found["gaussian"][s]) > least for s in known},
        "river_trees": {s: np.array(found["trees"][s]) > 0 for s in known},
    }
    return {name: {s: _quiet(known[s].times, high[name][s]) for s in known} for name in high}


def _quiet(times: Ints, high: np.ndarray) -> Ints:
    """High rows with none high within twelve hours before."""
    rows = np.flatnonzero(high)
    before = np.diff(times[rows], prepend=-(2**62))
    return rows[before > QUIET * EVERY_US]


def _random_score(known: Mapping[str, Labelled], alarms: Mapping[str, Ints]) -> float:
    """What as many alarms at random rows score on average."""
    rng = np.random.default_rng(SEED)
    scores = []
    for _ in range(RANDOM_RUNS):
        drawn = [(one, np.sort(rng.integers(0, len(one.times), len(alarms[series])))) for series, one in known.items()]
        scores.append(score(drawn))
    return float(np.mean(scores))


def _draw(known: Mapping[str, Labelled], alarms: Mapping[str, Mapping[str, Ints]]) -> None:
    from bench.mining.plots import saved

    with saved("mining_nab", (12, 14), len(known)) as panels:
        for panel, (name, one) in zip(panels, known.items(), strict=True):
            days = one.times.astype("datetime64[us]")
            panel.plot(days, one.values, linewidth=0.5, color="tab:gray")
            for first, last in one.windows:
                panel.axvspan(days[first], days[last], color="tab:orange", alpha=0.25)
            for level, (scorer, by_series) in enumerate(alarms.items()):
                rows = by_series[name]
                height = np.full(len(rows), one.values.max() * (1.02 + 0.07 * level))
                panel.plot(days[rows], height, "|", markersize=6, label=scorer)
            panel.set_title(name, fontsize=9)
        panels[0].legend(fontsize=7, ncols=4)


@dataclass(frozen=True)
class Counted:
    """Spikes that were found, and alarms elsewhere."""

    found: int
    planted: int
    false: int
    slots: int


def planted_series(kind: str, number: int) -> Planted:
    """Spikes in noise of one kind whose deviation is 1."""
    rng = np.random.default_rng([SEED, SETS.index(kind), number])
    base = {
        "white": lambda: noise(rng, COUNT),
        "season": lambda: noise(rng, COUNT) + 5 * wave("saw", SEASON, COUNT),
        "autocorrelated": lambda: noise(rng, COUNT, 0.8),
        "heavy tails": lambda: rng.standard_t(3, COUNT) / math.sqrt(3),
        "level shifts": lambda: noise(rng, COUNT) + 6 * (np.arange(COUNT) // 700 % 2),
    }[kind]()
    return spikes(rng, base, SIZES, SPIKES, HISTORY + 5 * SEASON)


def measure_planted(report: Report) -> Figures:
    """Found by ANOMALIES with one set of arguments, `season` aside, and by River's Gaussian scorer with the same history."""
    all_series = {(kind, number): planted_series(kind, number) for kind in SETS for number in range(SERIES)}
    task = {
        "gaussian": {f"{k} {n}": HISTORY for k, n in all_series},
        "grace": GRACE,
        "trees_quantile": None,
        "seed": SEED,
    }
    peer = ask_peer(report, "river", task, {f"{k} {n}": one.values for (k, n), one in all_series.items()})
    least = math.erf(PLANTED_SCORE / math.sqrt(2))
    table, ours, theirs = [], [], []
    for kind in SETS:
        season = {"season": SEASON} if kind == "season" else {}
        call = Call("anomalies", HOUR_US, {"history": HISTORY, "score": PLANTED_SCORE, **season})
        own = [all_series[kind, number] for number in range(SERIES)]
        found = [(np.array([line[0] for line in call.find(series_of(one.values))], np.int64)) for one in own]
        begin = series_of(own[0].values).times[0]
        counted = _counted(own, [(times - begin) // HOUR_US for times in found])
        line: dict[str, Any] = {"set": kind, **_shares(counted)}
        ours.append(counted)
        if peer is not None:
            flags = [np.flatnonzero(np.array(peer["gaussian"][f"{kind} {n}"]) >= least) for n in range(SERIES)]
            theirs.append(_counted(own, flags))
            line |= {f"River's {name}": value for name, value in _shares(theirs[-1]).items()}
        table.append(line)
        report.say(str(line))
    write_table(
        "mining_anomalies", f"spikes of {SIZES[0]:g} to {SIZES[1]:g} deviations, score {PLANTED_SCORE:g}", table
    )
    figures: Figures = {
        "anomalies_found_share": _total(ours)["found"],
        "anomalies_false_per_1000": _total(ours)["false per 1000"],
        "anomalies_found_share_river": _total(theirs)["found"] if theirs else None,
        "anomalies_false_per_1000_river": _total(theirs)["false per 1000"] if theirs else None,
    }
    call = Call("anomalies", HOUR_US, {"history": HISTORY, "season": SEASON, "score": PLANTED_SCORE})
    some = [series_of(planted_series("season", number).values) for number in range(2)]
    figures["anomalies_sql_equal_share"] = share_in_sql(report.say, call, some)
    figures["anomalies_us_per_slot"] = call.seconds(some[0]) / COUNT * 1e6
    return figures


def _counted(own: list[Planted], found: list[Ints]) -> Counted:
    """Alarms before the first spike's part count for nothing: ours has no scores there."""
    first = HISTORY + 5 * SEASON
    hits = sum(len(np.intersect1d(one.places, alarms)) for one, alarms in zip(own, found, strict=True))
    alarms = sum(int((alarms >= first).sum()) for alarms in found)
    return Counted(hits, sum(len(one.places) for one in own), alarms - hits, len(own) * (COUNT - first))


def _shares(counted: Counted) -> dict[str, float]:
    return {"found": counted.found / counted.planted, "false per 1000": 1000 * counted.false / counted.slots}


def _total(counted: list[Counted]) -> dict[str, float]:
    fields = ("found", "planted", "false", "slots")
    return _shares(Counted(*(sum(getattr(each, name) for each in counted) for name in fields)))
