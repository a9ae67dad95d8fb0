"""PERIODIC_PATTERNS: what is at the same places of most periods, such as low at night and high at eight o'clock.

Han, Dong and Yin (1999) call them partial periodic patterns. A letter is a place of the period and the symbol there; a pattern is a
set of letters. Only closed patterns are returned: those to which no letter can be added that is true in the same periods. They are
found as LCM does (Uno, Kiyomi, Arimura 2004), each once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from penstock.errors import error
from penstock.operators.mining.periods import periods
from penstock.operators.mining.series import Columns, Options, Series, symbols_of, text_of

MOST_WORK = 20_000_000
"""How often a letter is compared with the periods of a pattern, at most: some seconds."""
_LEAST_SEGMENTS = 3
_OF_PERIODS = {"strength": 0.3, "repeats": 3, "top": 1, "detrend": True}
Letter = tuple[int, Any]


def periodic_patterns(series: Series, options: Options) -> Columns:
    """The closed patterns: those with more letters first, then those that are true more often."""
    period = options["period"]
    if period is None:
        lags = periods(series, _OF_PERIODS)[0]
        period = int(lags[0]) if len(lags) else 0
    segments = segments_of(series, int(period), options) if period else []
    count = len(segments)
    least = max(1, math.ceil(round(float(options["confidence"]) * count, 9)))
    found = list(closed_patterns(segments, least)) if count >= _LEAST_SEGMENTS else []
    found = [(pattern, true) for pattern, true in found if len(pattern) >= options["letters"]]
    found.sort(key=lambda each: (-len(each[0]), -each[1], each[0]))
    found = found[: int(options["top"])]
    items = np.empty(len(found), object)
    items[:] = [[{"place": place, "value": text_of(symbol)} for place, symbol in pattern] for pattern, _ in found]
    trues = np.array([true for _, true in found], np.int64)
    return items, trues, np.full(len(found), count), trues / max(count, 1)


def segments_of(series: Series, period: int, options: Options) -> list[set[Letter]]:
    """The letters of each period that lies wholly inside the window and has a reading."""
    if not len(series):
        return []
    phase = int(options["phase"] or 0)
    numbers = series.times // series.every_us - phase
    begin, end = int(numbers[0]) - series.before, int(numbers[-1]) + 1
    at, symbols, words = symbols_of(series, options["levels"])
    found: dict[int, set[Letter]] = {}
    for number, symbol in zip(numbers[at].tolist(), symbols.tolist(), strict=True):
        segment, place = divmod(number, period)
        if segment * period >= begin and (segment + 1) * period <= end:
            there = words[symbol] if series.words else (words[symbol],)  # a slot of symbols has a set of them
            found.setdefault(segment, set()).update((place, each) for each in there)
    return list(found.values())


def closed_patterns(segments: list[set[Letter]], least: int) -> Iterator[tuple[tuple[Letter, ...], int]]:
    """Every closed pattern that is true in at least so many segments, and in how many it is."""
    letters = sorted(set().union(*segments))
    true_in = [sum(1 << at for at, own in enumerate(segments) if letter in own) for letter in letters]
    frequent = [place for place, true in enumerate(true_in) if true.bit_count() >= least]

    work = 0

    def closure(true: int) -> list[int]:
        nonlocal work
        work += len(frequent)
        if work > MOST_WORK:
            detail = "PERIODIC_PATTERNS finds too many patterns"
            raise error("over_budget", detail=detail, hint="raise confidence, or use fewer levels or wider slots")
        return [place for place in frequent if true_in[place] & true == true]

    everywhere = (1 << len(segments)) - 1
    waiting = [(closure(everywhere), everywhere, -1)]
    while waiting:
        pattern, true, core = waiting.pop()
        if pattern:
            yield tuple(letters[place] for place in pattern), true.bit_count()
        own = set(pattern)
        for place in frequent:
            smaller = true & true_in[place]
            if place <= core or place in own or smaller.bit_count() < least:
                continue
            wider = closure(smaller)
            # Each is reached once: from the pattern whose letters before this one are the same.
            if [each for each in wider if each < place] == [each for each in pattern if each < place]:
                waiting.append((wider, smaller, place))
