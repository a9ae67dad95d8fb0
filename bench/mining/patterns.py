"""PERIODIC_PATTERNS: planted patterns are found, nothing else is always true, and counts are those of PAMI's FP-growth on the periods.

FP-growth finds all frequent sets; we leave out those that are not closed. PAMI's own search for closed sets (CHARM, 2026.10.13.1) misses some.
"""

from __future__ import annotations

import math

import numpy as np

from bench.mining import Figures
from bench.mining.calls import HOUR_US, Call, series_of, share_in_sql
from bench.mining.generated import with_gaps
from bench.mining.peers import ask_peer
from bench.mining.plots import bars
from bench.report import Report
from bench.tables import write_table
from penstock.operators.mining.series import Floats

PERIOD, PERIODS, LEVELS, EACH, GAPS = 24, 40, (1.0, 2.0, 3.0), 40, 0.1
MOSTLY = 36
"""In so many periods the second pattern is true, together with the first, which always is."""
OPTIONS = {"period": PERIOD, "levels": LEVELS, "top": 1000}
CALL = Call("periodic_patterns", HOUR_US, {**OPTIONS, "confidence": 0.8})
LOW = Call("periodic_patterns", HOUR_US, {**OPTIONS, "confidence": 0.3})
SEED = 11

Pattern = frozenset[tuple[int, str]]


def planted(number: int) -> tuple[Floats, Pattern, Pattern]:
    """Values whose symbols are random but for two patterns: one is always true, one mostly."""
    rng = np.random.default_rng([SEED, number])
    symbols = rng.integers(0, len(LEVELS) + 1, (PERIODS, PERIOD)).astype(float)
    places = rng.permutation(PERIOD)
    always, mostly = places[: rng.integers(2, 6)], places[6 : 6 + rng.integers(2, 6)]
    own = rng.integers(0, len(LEVELS) + 1, PERIOD)
    symbols = with_gaps(rng, symbols.ravel(), GAPS).reshape(PERIODS, PERIOD)
    symbols[:, always] = own[always]
    true = rng.permutation(PERIODS)
    symbols[np.ix_(true[:MOSTLY], mostly)] = own[mostly]
    symbols[np.ix_(true[MOSTLY:], mostly[:1])] = (own[mostly[0]] + 1) % (len(LEVELS) + 1)
    values = symbols + rng.uniform(0.1, 0.9, symbols.shape)
    one, two = (frozenset((int(place), str(own[place])) for place in each) for each in (always, [*always, *mostly]))
    return values.ravel(), one, two


def patterns_of(call: Call, values: Floats) -> dict[Pattern, int]:
    """How often each is true."""
    return {frozenset(items): count for items, count, *_ in call.find(series_of(values))}


def measure_patterns(report: Report) -> Figures:
    data = [planted(number) for number in range(EACH)]
    found = [patterns_of(CALL, values) for values, *_ in data]
    right = [
        one in own and own[one] == PERIODS and own.get(two) == MOSTLY
        for own, (_, one, two) in zip(found, data, strict=True)
    ]
    others = [
        sum(count == PERIODS for pattern, count in own.items() if pattern != one)
        for own, (_, one, _) in zip(found, data, strict=True)
    ]
    figures: Figures = {
        "patterns_found_share": float(np.mean(right)),
        "patterns_always_true_not_planted": float(sum(others)),
    }
    low = [patterns_of(LOW, values) for values, *_ in data]
    least = math.ceil(0.3 * PERIODS)
    peer = ask_peer(report, "pami", {"least": least, "transactions": [transactions(values) for values, *_ in data]})
    ours_s = float(np.median([LOW.seconds(series_of(values), 3) for values, *_ in data[:10]]))
    if peer is not None:
        theirs = [closed(_as_patterns(each)) for each in peer["found"]]
        equal = [one == two for one, two in zip(low, theirs, strict=True)]
        figures["patterns_equal_pami"] = float(np.mean(equal))
        table = [
            {
                "series": n,
                "ours": len(low[n]),
                "PAMI": len(theirs[n]),
                "the same": len(low[n].items() & theirs[n].items()),
            }
            for n in range(EACH)
        ]
        write_table(
            "mining_patterns", f"closed patterns in at least {least} of {PERIODS} periods, with their counts", table
        )
        shown = {
            key: {str(line["series"]): float(line[key]) for line in table[:20]} for key in ("ours", "PAMI", "the same")
        }
        bars("mining_patterns", {"closed patterns by series": shown}, {})
    figures["patterns_ms"] = 1000 * ours_s
    figures["patterns_sql_equal_share"] = share_in_sql(report.say, CALL, [series_of(data[0][0]), series_of(data[1][0])])
    return figures


def transactions(values: Floats) -> list[list[str]]:
    """The letters of each period, as a miner of item sets takes them."""
    found = []
    for segment in values.reshape(PERIODS, PERIOD):
        symbols = np.searchsorted(LEVELS, segment, side="right")
        found.append([f"{place}:{symbol}" for place, symbol in enumerate(symbols) if not np.isnan(segment[place])])
    return found


def _as_patterns(found: list[tuple[list[str], int]]) -> dict[Pattern, int]:
    def letter(item: str) -> tuple[int, str]:
        place, symbol = item.split(":")
        return int(place), symbol

    return {frozenset(map(letter, items)): count for items, count in found}


def closed(frequent: dict[Pattern, int]) -> dict[Pattern, int]:
    """Those to which no letter can be added without a loss of periods."""
    covered = set()
    for pattern, count in frequent.items():
        covered |= {part for part in (pattern - {letter} for letter in pattern) if frequent.get(part) == count}
    return {pattern: count for pattern, count in frequent.items() if pattern not in covered}
