"""Definitions of the mining functions as plain loops over all rows; nothing of the product is used here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

Value = float | None


@dataclass(frozen=True)
class Row:
    """A reading: its time, its place in the log, its group and its value."""

    ts: int
    position: int
    group: str
    value: Value


@dataclass(frozen=True)
class Elements:
    """A series: times and values. `begin` is the first slot of the window, however far before the first reading."""

    times: list[int]
    values: list[Value]
    begin: int
    every: int


Symbol = str | int | bool


@dataclass(frozen=True)
class SymbolRow:
    """A reading of a symbol. `by`: of which sequence it is."""

    ts: int
    position: int
    group: str
    symbol: Symbol | None
    by: object = None


@dataclass(frozen=True)
class Symbols:
    """A series of symbols: the readings of each element in order; none where a slot has none."""

    times: list[int]
    seen: list[list[Symbol]]
    begin: int
    every: int


def symbol_slots(rows: list[SymbolRow], low: int, until: int, every: int) -> Symbols:
    """The symbols of one group's rows inside [low, until], by whole slots."""
    begin, end = -(-low // every) * every, (until + 1) // every * every
    inside = [row for row in rows if begin <= row.ts < end and row.symbol is not None]
    inside.sort(key=lambda row: (row.ts, row.position))
    if not inside:
        return Symbols([], [], begin, every)
    times = list(range(inside[0].ts // every * every, end, every))
    seen = [[row.symbol for row in inside if row.ts // every * every == at and row.symbol is not None] for at in times]
    return Symbols(times, seen, begin, every)


def symbol_readings(rows: list[SymbolRow], low: int, until: int) -> Symbols:
    """The same with each reading as an element."""
    inside = [row for row in rows if low <= row.ts <= until and row.symbol is not None]
    inside.sort(key=lambda row: (row.ts, row.position))
    return Symbols([row.ts for row in inside], [[row.symbol] for row in inside if row.symbol is not None], 0, 0)


def at_levels(series: Elements, levels: list[float]) -> Symbols:
    """Symbols of numbers: how many of the levels each reaches."""
    seen: list[list[Symbol]] = [[] if v is None else [sum(level <= v for level in levels)] for v in series.values]
    return Symbols(series.times, seen, series.begin, series.every)


def as_text(symbol: Symbol) -> str:
    return str(symbol).lower() if isinstance(symbol, bool) else str(symbol)


def is_reading(value: Value) -> bool:
    return value is not None and math.isfinite(value)


def slot_of(row: Row, every: int) -> int:
    return row.ts // every * every


def whole_slots(rows: list[Row], low: int, until: int, every: int) -> list[Row]:
    """The rows of slots that lie inside a window as a whole."""
    return [row for row in rows if low <= slot_of(row, every) and slot_of(row, every) + every - 1 <= until]


def slot_value(rows: list[Row], how: str) -> Value:
    values = [row.value for row in rows if row.value is not None and is_reading(row.value)]
    if how == "COUNT":
        return float(len(values))
    if not values:
        return None
    if how == "LAST":
        return max((row for row in rows if is_reading(row.value)), key=lambda row: (row.ts, row.position)).value
    if how in ("MIN", "MAX"):
        return (min if how == "MIN" else max)(values)
    return math.fsum(values) / (len(values) if how == "MEAN" else 1)


def slots(rows: list[Row], low: int, until: int, every: int, how: str = "MEAN") -> Elements:
    """The series of one group's rows inside [low, until], by slots."""
    inside = whole_slots(rows, low, until, every)
    readings = [row for row in inside if is_reading(row.value)]
    begin = -(-low // every) * every
    if not readings:
        return Elements([], [], begin, every)
    first, last = min(slot_of(row, every) for row in readings), (until + 1) // every * every - every
    times = list(range(first, last + 1, every))
    values = [slot_value([row for row in inside if slot_of(row, every) == at], how) for at in times]
    return Elements(times, values, begin, every)


def readings(rows: list[Row], low: int, until: int) -> Elements:
    """The same with each reading as an element."""
    found = [row for row in rows if low <= row.ts <= until and is_reading(row.value)]
    found.sort(key=lambda row: (row.ts, row.position))
    return Elements([row.ts for row in found], [row.value for row in found], 0, 0)


def vector_sum(rows: list[list[float | None] | None], mean: bool) -> list[float] | None:
    known = [row for row in rows if row is not None]
    if not known:
        return None
    sums = [math.fsum(row[place] or 0 for row in known) for place in range(len(known[0]))]
    return [each / len(known) for each in sums] if mean else sums


def percentile(values: list[float], fraction: float) -> float:
    ordered = sorted(values)
    place = (len(ordered) - 1) * fraction
    low, high = math.floor(place), math.ceil(place)
    if ordered[low] == ordered[high]:
        return ordered[low]
    return (high - place) * ordered[low] + (place - low) * ordered[high]


@dataclass(frozen=True)
class Scoring:
    """The arguments of ANOMALIES, lengths of time as numbers of elements."""

    history: int
    score: float = 4.0
    season: int | None = None
    seasons: int = 4
    spread: int = 1
    smooth: int = 1
    quiet: int = 0
    robust: bool = True

    @property
    def reach(self) -> int:
        season = 0 if self.season is None else self.seasons * self.season + self.spread
        return self.history + self.smooth - 1 + season


def smoothed(series: Elements, i: int, asked: Scoring) -> Value:
    values = [series.values[k] for k in range(i - asked.smooth + 1, i + 1) if 0 <= k < len(series.values)]
    present = [value for value in values if value is not None]
    if not present or min(present) == max(present):
        return present[0] if present else None
    return sum(present) / len(present)


def rest(series: Elements, i: int, asked: Scoring) -> Value:
    own = smoothed(series, i, asked)
    if own is None or asked.season is None:
        return own
    about = [
        smoothed(series, i - j * asked.season + r, asked)
        for j in range(1, asked.seasons + 1)
        for r in range(-asked.spread, asked.spread + 1)
    ]
    present = [value for value in about if value is not None]
    return own - percentile(present, 0.5) if present else None


def score(series: Elements, i: int, asked: Scoring) -> dict[str, Value] | None:
    """The score of element i with what it is made from; None where it has none."""
    first = -((series.times[0] - series.begin) // series.every) if series.every else 0  # the window's first element
    if i - asked.reach < first:
        return None
    own = rest(series, i, asked)
    history = [rest(series, k, asked) for k in range(i - asked.history, i)]
    present = [value for value in history if value is not None]
    if own is None or len(present) < max(20, asked.history / 20):
        return None
    if asked.robust:
        centre = percentile(present, 0.5)
        scale = (percentile(present, 0.75) - percentile(present, 0.25)) / 1.349
        if scale == 0:
            scale = (percentile(present, 0.95) - percentile(present, 0.05)) / 3.29
    elif min(present) == max(present):
        centre, scale = present[0], 0.0
    else:
        centre = sum(present) / len(present)
        scale = math.sqrt(sum((value - centre) ** 2 for value in present) / (len(present) - 1))
    off = abs(own - centre)
    found = min(round(off / scale, 9), 1000.0) if scale > 0 else 0.0 if off == 0 else 1000.0
    value = smoothed(series, i, asked)
    assert value is not None
    expected = value - own + centre
    width = asked.score * scale
    return {"value": value, "expected": expected, "lower": expected - width, "upper": expected + width, "score": found}


def anomalies(series: Elements, asked: Scoring) -> list[tuple[int, dict[str, Value]]]:
    """The index and the score of each anomaly."""
    found = []
    for i in range(len(series.values)):
        own = score(series, i, asked)
        first = -((series.times[0] - series.begin) // series.every) if series.every else 0
        if own is None or i - asked.quiet - asked.reach < first:
            continue
        before = [score(series, k, asked) for k in range(max(0, i - asked.quiet), i)]
        is_high = [each is not None and each["score"] is not None and each["score"] >= asked.score for each in before]
        if own["score"] is not None and own["score"] >= asked.score and not any(is_high):
            found.append((i, own))
    return found


def anomaly(series: Elements, asked: Scoring) -> tuple[int, dict[str, Value]] | None:
    last = len(series.values) - 1
    own = score(series, last, asked) if last >= 0 else None
    return None if own is None else (last, own)


def baseline(series: Elements, season: int, level: float) -> list[dict[str, Value]]:
    lines = []
    for place in range(season):
        values = [
            value
            for at, value in zip(series.times, series.values, strict=True)
            if value is not None and at // series.every % season == place
        ]
        if values:
            edges = [percentile(values, f) for f in (0.5, (1 - level) / 2, (1 + level) / 2)]
            named = dict(zip(("expected", "lower", "upper"), edges, strict=True))
            lines.append({"place": place, **named, "n": len(values)})
    return lines


def correlation_at(values: list[Value], rests: dict[int, float], lag: int) -> tuple[float | None, int]:
    """The correlation of a series with itself, and over how many pairs."""
    pairs = [(rests[i], rests[i + lag]) for i in rests if i + lag in rests]
    ones, twos = sum(a * a for a, _ in pairs), sum(b * b for _, b in pairs)
    if len(pairs) < max(20, (len(values) - lag) / 10) or ones == 0 or twos == 0:
        return None, len(pairs)
    return round(sum(a * b for a, b in pairs) / math.sqrt(ones * twos), 9), len(pairs)


def prominence(heights: list[float], at: int) -> float:
    lows = []
    for step in (-1, 1):
        low, k = heights[at], at + step
        while 0 <= k < len(heights) and heights[k] <= heights[at]:
            low, k = min(low, heights[k]), k + step
        lows.append(low)
    return round(heights[at] - max(lows), 9)


def periods(
    series: Elements, strength: float = 0.3, repeats: int = 3, top: int = 3, detrend: bool = True
) -> list[dict[str, Value]]:
    present = {i: value for i, value in enumerate(series.values) if value is not None}
    if len(present) < 20:
        return []
    mean = math.fsum(present.values()) / len(present)
    middle = math.fsum(present) / len(present)
    slope = 0.0
    if detrend:
        slope = math.fsum((i - middle) * (v - mean) for i, v in present.items())
        slope /= math.fsum((i - middle) ** 2 for i in present)
    rests = {i: v - mean - slope * (i - middle) for i, v in present.items()}
    if max(map(abs, rests.values())) <= 1e-9 * max(1.0, *map(abs, present.values())):
        return []
    last = len(series.values) // repeats
    known = [correlation_at(series.values, rests, lag) for lag in range(min(last + 1, len(series.values) - 1) + 1)]
    heights = [1.0, *(-1.0 if r is None else r for r, _ in known[1:])]
    lags = _periods_of(heights, [count for _, count in known], strength)
    return [_period_line(series.every, lag, length, heights, None) for lag, length in lags[:top]]


def symbol_periods(series: Symbols, strength: float = 0.3, repeats: int = 3, top: int = 3) -> list[dict[str, Value]]:
    """The periods of the last symbols of elements."""
    last = {i: own[-1] for i, own in enumerate(series.seen) if own}
    if len(last) < 20 or len(set(last.values())) == 1:
        return []
    chance = sum((list(last.values()).count(word) / len(last)) ** 2 for word in set(last.values()))
    count = len(series.seen)
    heights, pairs, shares = [], [], []
    for lag in range(min(count // repeats + 1, count - 1) + 1):
        equal = [last[i] == last[i + lag] for i in last if i + lag in last]
        known = len(equal) >= max(20, (count - lag) / 10)
        shares.append(sum(equal) / len(equal) if known else None)
        pairs.append(len(equal))
        heights.append(max(-1.0, round((sum(equal) / len(equal) - chance) / (1 - chance), 9)) if known else -1.0)
    heights[0] = 1.0
    lags = _periods_of(heights, pairs, strength)
    return [_period_line(series.every, lag, length, heights, shares[lag]) for lag, length in lags[:top]]


def _period_line(every: int, lag: int, length: float, heights: list[float], share: Value) -> dict[str, Value]:
    seconds = length * every / 1e6 if every else None
    return {"lag": lag, "seconds": seconds, "strength": heights[lag], "confidence": share}


def _periods_of(heights: list[float], pairs: list[int], strength: float) -> list[tuple[int, float]]:
    """The lags that are periods and their exact lengths, the strongest first."""
    peaks = [
        p
        for p in range(2, len(heights) - 1)
        if heights[p] >= strength
        and heights[p] > heights[p - 1]
        and heights[p] >= heights[p + 1]
        and prominence(heights, p) >= max(0.05, 3 / math.sqrt(pairs[p]))
    ]
    found: dict[int, float] = {}
    chained: list[int] = []
    for peak in peaks:
        if peak in chained:
            continue
        chain, q, m = [peak], float(peak), 2
        while True:
            nearest = sorted(peaks, key=lambda lag: (abs(lag - m * q), lag))[0]
            if abs(nearest - m * q) > max(1.0, q / 8) or nearest <= chain[-1]:
                break
            chain.append(nearest)
            q = nearest / m
            m += 1
        chained += chain
        found.setdefault(peak, q)
        for k in range(1, len(chain)):
            about = [chain[k - 1]] + ([chain[k + 1]] if k + 1 < len(chain) else [])
            if all(heights[chain[k]] >= heights[lag] + 0.05 for lag in about):
                found.setdefault(chain[k], float(chain[k]))
    return sorted(found.items(), key=lambda each: (-heights[each[0]], each[0]))


def noise_of(values: list[float]) -> float:
    ones = [b - a for a, b in pairwise(values)]
    twos = [b - a for a, b in zip(values, values[2:], strict=False)]
    if not twos:
        return 0.0
    spreads = []
    for differences in (ones, twos):
        middle = percentile(differences, 0.5)
        spreads.append((1.4826 * percentile([abs(d - middle) for d in differences], 0.5)) ** 2)
    one, two = spreads
    if one == 0:
        one, two = (sum(d * d for d in differences) / len(differences) for differences in (ones, twos))
    if one == 0:
        return 0.0
    rho = min(max(two / one - 1, 0.0), 0.95)
    return one / 2 * (1 + rho) / (1 - rho) ** 2


def deviations(values: list[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values)


def best_partition(values: list[float], penalty: float, shortest: int) -> tuple[float, list[int]]:
    """The least cost of all partitions, and where segments begin in the first one that has it with the fewest; penalty in absolute terms."""
    best: list[tuple[float, list[int]] | None] = [(0.0, [])] + [None] * len(values)
    for end in range(shortest, len(values) + 1):
        for start in range(end - shortest + 1):
            before = best[start]
            if before is None:
                continue
            points = [*before[1], start] if start else []
            own = before[0] + deviations(values[start:end]) + (penalty if start else 0.0), points
            known = best[end]
            near = known is not None and abs(own[0] - known[0]) <= 1e-9 * max(own[0], penalty)
            fewer = known is None or len(points) < len(known[1])
            if known is None or (near and fewer) or (not near and own[0] < known[0]):
                best[end] = own
    found = best[-1]
    assert found is not None
    return found


def change_points(series: Elements, penalty: float = 3.0, shortest: int = 10) -> list[dict[str, Value]]:
    """The points of the best partition; `at` is the first element of a segment."""
    present = [(t, v) for t, v in zip(series.times, series.values, strict=True) if v is not None]
    values = [v for _, v in present]
    noise = noise_of(values) if len(values) >= 2 * shortest else 0.0
    if noise == 0:
        return []
    unit = noise * math.log(len(values))
    _, points = best_partition(values, penalty * unit, shortest)
    edges, found = [0, *points, len(values)], []
    for low, at, high in zip(edges, edges[1:], edges[2:], strict=False):
        left, right = values[low:at], values[at:high]
        saved = deviations(left + right) - deviations(left) - deviations(right)
        before, after = (math.fsum(part) / len(part) for part in (left, right))
        found.append({"at": present[at][0], "before": before, "after": after, "gain": saved / unit})
    return found


def forecast(series: Elements, ahead: int, season: int | None, z: float) -> list[list[float]]:
    """Time, value, lower and upper of the next elements."""
    y, first = series.values, 10 if season is None else 2 * season
    if len(y) <= first or all(value is None for value in y[first:]):
        return []
    phi, best = 0.98, None
    judged = {2**k for k in range(10) if 2**k < ahead} | {ahead}
    damped = {h: sum(phi**k for k in range(1, h + 1)) for h in range(1, ahead + 1)}
    for alpha in (0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8):
        for beta in (0.0, 0.02, 0.1):
            for gamma in (0.02, 0.1, 0.3) if season is not None else (0.02,):
                level, trend, places = _beginning(y, season)
                errors: dict[int, list[float]] = {h: [] for h in damped}
                for i, value in enumerate(y):
                    for h, factor in damped.items():
                        seen = y[i - 1 + h] if first <= i - 1 + h < len(y) else None
                        if seen is not None:
                            errors[h].append(abs(seen - (level + trend * factor + places[(i - 1 + h) % len(places)])))
                    place = i % len(places)
                    e = 0.0 if value is None else value - (level + phi * trend + places[place])
                    level, trend = level + phi * trend + alpha * e, phi * trend + alpha * beta * e
                    if season is not None:
                        places[place] += gamma * (1 - alpha) * e
                means = {h: sum(each) / len(each) for h, each in errors.items() if each}
                of_judged = [mean for h, mean in means.items() if h in judged]
                mean = sum(of_judged) / len(of_judged)
                if best is None or mean < best[0] * (1 - 1e-9):
                    best = (mean, level, trend, places, means)
    assert best is not None
    _, level, trend, places, means = best
    lines, error = [], 0.0
    for h, factor in damped.items():
        value = level + trend * factor + places[(len(y) - 1 + h) % len(places)]
        error = max(error, means.get(h, 0.0))
        width = z * 1.2533 * error
        lines.append([series.times[-1] + h * series.every, value, value - width, value + width])
    return lines


def _beginning(y: list[Value], season: int | None) -> tuple[float, float, list[float]]:
    if season is None:
        assert y[0] is not None
        return y[0], 0.0, [0.0]
    halves = [y[:season], y[season : 2 * season]]
    means = []
    for half in halves:
        present = [value for value in half if value is not None]
        means.append(sum(present) / len(present) if present else 0.0)
    places = []
    for k in range(season):
        off = [half[k] - mean for half, mean in zip(halves, means, strict=True) if half[k] is not None]  # type: ignore[operator]
        places.append(sum(off) / len(off) if off else 0.0)
    return means[0], 0.0, places


def periodic_patterns(
    series: Symbols, period: int, phase: int = 0, confidence: float = 0.8, letters: int = 1
) -> list[dict[str, object]]:
    """All closed patterns: what any choice of periods has in common is one."""
    segments: dict[int, set[tuple[int, Symbol]]] = {}
    end = (series.times[-1] + series.every) // series.every - phase if series.times else 0
    for at, own in zip(series.times, series.seen, strict=True):
        number = at // series.every - phase
        first = number // period * period
        if own and first >= series.begin // series.every - phase and first + period <= end:
            segments.setdefault(first, set()).update((number - first, symbol) for symbol in own)
    found: dict[tuple[tuple[int, Symbol], ...], int] = {}
    whole = list(segments.values())
    for chosen in range(1, 2 ** len(whole)):
        common = set.intersection(*(whole[k] for k in range(len(whole)) if chosen >> k & 1))
        true = sum(common <= each for each in whole)
        if common and round(true / len(whole), 9) >= confidence and len(common) >= letters:
            found[tuple(sorted(common))] = true
    if len(whole) < 3:
        return []
    ordered = sorted(found.items(), key=lambda each: (-len(each[0]), -each[1], each[0]))
    return [
        {
            "items": [{"place": place, "value": as_text(symbol)} for place, symbol in pattern],
            "count": true,
            "segments": len(whole),
            "confidence": true / len(whole),
        }
        for pattern, true in ordered
    ]


def frequent_sequences(
    sequences: list[Symbols],
    share: float = 0.5,
    longest: int = 5,
    gap: int = 0,
    within: int | None = None,
    collapse: bool = True,
) -> list[dict[str, object]]:
    """All patterns that occur in enough sequences, found by listing every occurrence."""
    patterns: list[set[tuple[Symbol, ...]]] = []
    for sequence in sequences:
        elements: list[tuple[Symbol, int, int]] = []  # the symbol, and where it begins and ends
        for number, own in enumerate(sequence.seen):
            if own and collapse and elements and elements[-1][0] == own[-1]:
                elements[-1] = (own[-1], elements[-1][1], number)
            elif own:
                elements.append((own[-1], number, number))
        if elements:
            patterns.append(_occurring(elements, longest, gap, within))
    counts = {pattern: sum(pattern in own for own in patterns) for pattern in set().union(*patterns)}
    symbols = {symbol for pattern in counts for symbol in pattern}
    found = []
    for pattern, count in counts.items():
        longer = [(symbol, *pattern) for symbol in symbols] + [(*pattern, symbol) for symbol in symbols]
        if len(pattern) < 2 or round(count / len(patterns), 9) < share or any(counts.get(p) == count for p in longer):
            continue
        found.append((pattern, count))
    found.sort(key=lambda each: (-each[1], -len(each[0]), each[0]))
    return [
        {"items": [as_text(symbol) for symbol in pattern], "streams": count, "share": count / len(patterns)}
        for pattern, count in found
    ]


def _occurring(
    elements: list[tuple[Symbol, int, int]], longest: int, gap: int, within: int | None
) -> set[tuple[Symbol, ...]]:
    found = set()
    waiting = [[start] for start in range(len(elements))]
    while waiting:
        places = waiting.pop()
        found.add(tuple(elements[place][0] for place in places))
        for place in range(places[-1] + 1, min(places[-1] + 2 + gap, len(elements))):
            apart = elements[place][1] - elements[places[0]][2]
            if len(places) < longest and (within is None or apart <= within):
                waiting.append([*places, place])
    return found


def mean_and_deviation(values: list[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def distance(ones: list[float], twos: list[float], normalise: bool) -> float:
    """How far two stretches of the same length are from each other."""
    if not normalise:
        return round(math.dist(ones, twos), 9)
    (one, first), (two, second) = mean_and_deviation(ones), mean_and_deviation(twos)
    constant = [d <= 1e-9 * max(1.0, abs(m)) for m, d in ((one, first), (two, second))]
    if any(constant):
        return 0.0 if all(constant) else math.sqrt(len(ones))
    products = math.fsum((a - one) * (b - two) for a, b in zip(ones, twos, strict=True))
    return math.sqrt(2 * len(ones) * (1 - round(products / (len(ones) * first * second), 9)))


def matches(series: Elements, shape: list[float], top: int = 3, normalise: bool = True) -> list[dict[str, Value]]:
    size, found = len(shape), []
    for i in range(len(series.values) - size + 1):
        own = [value for value in series.values[i : i + size] if value is not None]
        if len(own) == size:
            found.append((distance(own, shape, normalise), i))
    chosen: list[tuple[float, int]] = []
    for each in sorted(found):
        if len(chosen) < top and all(abs(each[1] - other) > size / 2 for _, other in chosen):
            chosen.append(each)
    return [{"at": series.times[i], "distance": d} for d, i in chosen]


Point = list[float]


@dataclass(frozen=True)
class Placed:
    """A row of numbers, and its place in the log."""

    position: int
    point: Point


def hashed(position: int) -> int:
    """XXH64 of eight bytes with the seed 42, as a signed number."""
    mask = 2**64 - 1
    one, two, three, four, five = (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )

    def turned(word: int, bits: int) -> int:
        return ((word << bits) | (word >> (64 - bits))) & mask

    found = (42 + five + 8) & mask
    found ^= turned(position * two & mask, 31) * one & mask
    found = (turned(found, 27) * one + four) & mask
    for shift, prime in ((33, two), (29, three)):
        found = (found ^ (found >> shift)) * prime & mask
    found ^= found >> 32
    return found - 2**64 if found >= 2**63 else found


def sampled(rows: list[Placed], sample: int) -> list[Placed]:
    chosen = sorted(rows, key=lambda row: hashed(row.position))[:sample]
    return sorted(chosen, key=lambda row: row.position)


def scaled(points: list[Point]) -> list[Point]:
    columns = []
    for column in zip(*points, strict=True):
        values = list(column)
        if min(values) == max(values):
            continue
        spread = (percentile(values, 0.75) - percentile(values, 0.25)) / 1.349
        if spread == 0:
            mean = math.fsum(values) / len(values)
            spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
        middle = percentile(values, 0.5)
        columns.append([(value - middle) / spread for value in values])
    return [list(point) for point in zip(*columns, strict=True)] if columns else [[] for _ in points]


def middle_of(points: list[Point]) -> Point:
    return [math.fsum(column) / len(points) for column in zip(*points, strict=True)]


def squared(one: Point, two: Point) -> float:
    return math.fsum((a - b) ** 2 for a, b in zip(one, two, strict=True))


def first_largest(values: list[float]) -> int:
    """The first of those that are largest, or within 1e-9 of it as one goes along."""
    best = 0
    for place, value in enumerate(values):
        if value > values[best] * (1 + 1e-9):
            best = place
    return best


def halves(cluster: list[int], points: list[Point]) -> tuple[list[int], list[int]]:
    """A cluster cut at the mean of its widest dimension."""
    own = [points[i] for i in cluster]
    if not own or not own[0]:
        return cluster, []
    middle = middle_of(own)
    spreads = [math.fsum((point[j] - middle[j]) ** 2 for point in own) for j in range(len(middle))]
    j = first_largest(spreads)
    edge = middle[j] + 1e-9 * math.sqrt(spreads[j] / len(own))
    return [i for i in cluster if points[i][j] <= edge], [i for i in cluster if points[i][j] > edge]


def saved(cluster: list[int], points: list[Point]) -> float:
    one, two = halves(cluster, points)
    return union_cost(one, two, points) if one and two else 0.0


def union_cost(one: list[int], two: list[int], points: list[Point]) -> float:
    if not one or not two:
        return 0.0
    distance = squared(middle_of([points[i] for i in one]), middle_of([points[i] for i in two]))
    return len(one) * len(two) / (len(one) + len(two)) * distance


def inner_squares(cluster: list[int], points: list[Point]) -> float:
    own = [points[i] for i in cluster]
    return math.fsum(squared(point, middle_of(own)) for point in own) if own else 0.0


def settled(parts: list[list[int]], points: list[Point]) -> list[list[int]]:
    """Lloyd: each point goes to the nearest mean, until none moves."""
    for _ in range(100):
        means = [middle_of([points[i] for i in part]) if part else None for part in parts]
        found: list[list[int]] = [[] for _ in parts]
        for i, point in enumerate(points):
            nearest, least = -1, math.inf
            for c, mean in enumerate(means):
                if mean is not None and (nearest < 0 or squared(point, mean) < least * (1 - 1e-9)):
                    nearest, least = c, squared(point, mean)
            found[nearest].append(i)
        if found == parts:
            break
        parts = found
    return parts


def partition(points: list[Point], k: int) -> list[list[int]]:
    parts: list[list[int]] = [list(range(len(points)))]
    while len(parts) < k:
        can = [c for c, part in enumerate(parts) if saved(part, points) > 0]
        if not can:
            break
        widest = can[first_largest([inner_squares(parts[c], points) for c in can])]
        parts[widest], other = halves(parts[widest], points)
        parts.append(other)
    parts = settled(parts + [[] for _ in range(k - len(parts))], points)
    for _ in range(20):
        pair, cost = None, math.inf
        for a in range(k):
            for b in range(a + 1, k):
                if (parts[a] or parts[b]) and (
                    pair is None or union_cost(parts[a], parts[b], points) < cost * (1 - 1e-9)
                ):
                    pair, cost = (a, b), union_cost(parts[a], parts[b], points)
        others = [c for c in range(k) if pair is not None and c not in pair and saved(parts[c], points) > 0]
        if pair is None or not others:
            break
        best = others[first_largest([saved(parts[c], points) for c in others])]
        if saved(parts[best], points) <= cost * (1 + 1e-9):
            break
        tried = [list(part) for part in parts]
        tried[pair[0]] = sorted(parts[pair[0]] + parts[pair[1]])
        tried[best], tried[pair[1]] = halves(parts[best], points)
        tried = settled(tried, points)
        before, after = (sum(inner_squares(part, points) for part in each) for each in (parts, tried))
        if after >= before * (1 - 1e-9):
            break
        parts = tried
    return [part for part in parts if part]


def clusters(rows: list[Placed], k: int, sample: int = 10_000, scale: bool = True) -> list[dict[str, object]]:
    """The clusters of rows whose numbers are all finite."""
    chosen = sampled(rows, sample)
    own = [row.point for row in chosen]
    points = scaled(own) if scale else own
    found = []
    for part in partition(points, k) if points else []:
        share = len(part) / len(own)
        found.append(
            {
                "size": round(share * len(rows)),
                "share": share,
                "center": middle_of([own[i] for i in part]),
                "radius": math.sqrt(inner_squares(part, points) / len(part)),
            }
        )
    return sorted(found, key=lambda each: (-each["share"], [round(x, 9) for x in each["center"]]))  # type: ignore[operator, attr-defined]
