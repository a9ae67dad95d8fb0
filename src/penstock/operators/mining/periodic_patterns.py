"""PERIODIC_PATTERNS: what is at the same places of most periods, such as low at night and high at eight o'clock.

Han, Dong and Yin (1999) call them partial periodic patterns. A letter is a place of the period and the symbol there; a pattern is a
set of letters. Only closed patterns are returned: those to which no letter can be added that is true in the same periods. They are
found as LCM does (Uno, Kiyomi, Arimura 2004), each once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from penstock.cancellation import check
from penstock.errors import error
from penstock.operators.mining.periods import periods
from penstock.operators.mining.series import Columns, Options, Series, symbols_of, text_of

MOST_WORK = 20_000_000
"""How often a letter is compared with the periods of a pattern, at most: some seconds."""
_WORD = 1024
"""Comparing so many periods takes about as long again as a comparison by itself."""
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
    of, places = np.divmod(numbers[at], period)
    whole = (of * period >= begin) & ((of + 1) * period <= end)
    of, places, symbols = of[whole], places[whole], symbols[whole]
    edges = np.append(np.flatnonzero(np.diff(of, prepend=of[:1] - 1)), len(of))
    found: list[set[Letter]] = []
    for low, high in pairwise(edges.tolist()):
        check()
        own: set[Letter] = set()
        for place, symbol in zip(places[low:high].tolist(), symbols[low:high].tolist(), strict=True):
            there = words[symbol] if series.words else (words[symbol],)  # a slot of symbols has a set of them
            own.update((place, each) for each in there)
        found.append(own)
    return found


def closed_patterns(segments: list[set[Letter]], least: int) -> Iterator[tuple[tuple[Letter, ...], int]]:
    """Every closed pattern that is true in at least so many segments, and in how many it is."""
    places: dict[Letter, list[int]] = {}
    for at, own_letters in enumerate(segments):
        check()
        for letter in own_letters:
            places.setdefault(letter, []).append(at)
    letters = sorted(letter for letter, true in places.items() if len(true) >= least)
    true_in = [_bits(places[letter], len(segments)) for letter in letters]
    frequent = range(len(letters))
    work, words = 0, 1 + len(segments) // _WORD

    def closure(true: int) -> list[int]:
        nonlocal work
        check()
        work += len(letters) * words
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


def _bits(places: list[int], count: int) -> int:
    """A number whose bits at these places are 1."""
    true = np.zeros(count, np.bool_)
    true[places] = True
    return int.from_bytes(np.packbits(true, bitorder="little").tobytes(), "little")
