"""MATCHES: a planted shape is found in noise and in a random walk, at the distances that stumpy finds, and how long both take."""

from __future__ import annotations

import numpy as np

from bench.mining import Figures
from bench.mining.calls import BEGAN_US, HOUR_US, Call, is_missing, series_of, share_in_sql
from bench.mining.generated import noise, walk
from bench.mining.peers import ask_peer
from bench.mining.plots import saved
from bench.report import Report
from bench.tables import write_table
from penstock.operators.mining.series import Floats, Ints

COUNT, LENGTH, PLANTED, EACH = 20_000, 64, 3, 24
NOISES = (0.1, 0.3, 0.6)
"""Beside a shape whose deviation is 1."""
BACKGROUNDS = ("noise", "walk")
SEED = 19


def shape_of(number: int) -> Floats:
    rng = np.random.default_rng([SEED, number])
    smooth = np.convolve(walk(rng, LENGTH + 8), np.ones(9) / 9, "valid")
    return (smooth - smooth.mean()) / smooth.std()


def kind_of(number: int) -> tuple[str, float]:
    return BACKGROUNDS[number % len(BACKGROUNDS)], NOISES[number // len(BACKGROUNDS) % len(NOISES)]


def planted(number: int) -> tuple[Floats, Floats, Ints]:
    """Values, the shape, and where it stands in them: larger or smaller, higher or lower, and with noise."""
    rng = np.random.default_rng([SEED + 1, number])
    background, size = kind_of(number)
    shape, values = shape_of(number), noise(rng, COUNT, 0.5) if background == "noise" else walk(rng, COUNT) / 4
    room = COUNT // PLANTED
    places = room * np.arange(PLANTED) + rng.integers(0, room - 2 * LENGTH, PLANTED)
    for place in places:
        own = rng.uniform(1, 5) * (shape + size * noise(rng, LENGTH))
        values[place : place + LENGTH] = values[place] + own
    return values, shape, places


def call_of(shape: Floats) -> Call:
    return Call("matches", HOUR_US, {"shape": tuple(shape.tolist()), "top": PLANTED})


def measure_matches(report: Report) -> Figures:
    if is_missing(report.say, "matches", "matches"):
        return {}
    data = [planted(number) for number in range(EACH)]
    found = [call_of(shape).find(series_of(values)) for values, shape, _ in data]
    places = [np.array([(line[0] - BEGAN_US) // HOUR_US for line in lines], np.int64) for lines in found]
    hits = [np.isin(own, at).mean() for at, (_, _, own) in zip(places, data, strict=True)]
    figures: Figures = {
        f"matches_found_share {place}": float(np.mean(hits[number :: len(BACKGROUNDS)]))
        for number, place in enumerate(BACKGROUNDS)
    }
    arrays = {f"values {n}": values for n, (values, *_) in enumerate(data)}
    arrays |= {f"shape {n}": shape for n, (_, shape, _) in enumerate(data)}
    peer = ask_peer(report, "stumpy", {"count": EACH, "top": PLANTED}, arrays)
    seconds = [call_of(shape).seconds(series_of(values), 3) for values, shape, _ in data]
    if peer is not None:
        equal = [
            at.tolist() == there["places"] and np.allclose([line[1] for line in lines], there["distances"], atol=1e-4)
            for at, lines, there in zip(places, found, peer["found"], strict=True)
        ]
        figures["matches_equal_stumpy"] = float(np.mean(equal))
        figures["matches_speed_ratio_stumpy"] = float(np.median(peer["seconds"]) / np.median(seconds))
    figures["matches_ms"] = 1000 * float(np.median(seconds))
    kinds = {kind_of(number): [hits[n] for n in range(EACH) if kind_of(n) == kind_of(number)] for number in range(EACH)}
    table = [{"in": place, "noise": size, "found": float(np.mean(own))} for (place, size), own in kinds.items()]
    write_table("mining_matches", f"{PLANTED} times a shape of {LENGTH} among {COUNT} elements, {EACH} series", table)
    _draw(data[2], places[2])
    values, shape, _ = data[0]
    # A shape of 64 numbers as SQL text, on a part of the walk.
    figures["matches_sql_equal_share"] = share_in_sql(report.say, call_of(shape), [series_of(values[:5000])])
    return figures


def _draw(one: tuple[Floats, Floats, Ints], places: Ints) -> None:
    values, shape, planted_ = one
    with saved("mining_matches", (12, 4), 1, PLANTED) as panels:
        for panel, place in zip(panels, sorted(places.tolist()), strict=True):
            around = np.arange(max(0, place - LENGTH), min(COUNT, place + 2 * LENGTH))
            stretch = values[place : place + LENGTH]
            panel.plot(around, values[around], color="tab:gray")
            panel.plot(
                place + np.arange(LENGTH), shape * stretch.std() + stretch.mean(), color="tab:red", label="shape"
            )
            panel.set_title("planted" if place in planted_ else "not planted", fontsize=9)
            panel.legend(fontsize=8)
