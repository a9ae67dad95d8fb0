"""The one table of mining functions: what a call takes and gives, which kernel finds it, and what the reference says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from penstock.operators.mining.anomalies import anomalies, anomaly, elements_needed, reach_of
from penstock.operators.mining.baseline import baseline
from penstock.operators.mining.change_points import change_points
from penstock.operators.mining.clusters import clusters
from penstock.operators.mining.forecast import forecast, judged_from
from penstock.operators.mining.frequent_sequences import frequent_sequences
from penstock.operators.mining.matches import matches
from penstock.operators.mining.periodic_patterns import periodic_patterns
from penstock.operators.mining.periods import periods
from penstock.operators.mining.series import Columns, Options, elements
from penstock.types import BIGINT, DOUBLE, Type, format_duration, parse_type

Kind = Literal["duration", "elements", "whole", "number", "flag", "word", "levels", "column", "shape"]
"""`elements` is a duration that is a multiple of `every`, or without `every` a number of readings."""
MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Parameter:
    """A named argument. `default` None: it may be left out, and `usual` says what is taken then; `required`: it may not."""

    name: str
    kind: Kind
    sentence: str
    default: Any = None
    least: float = 1
    most: float = MOST
    words: tuple[str, ...] = ()
    usual: str = "none"
    required: bool = False
    half_window: bool = False  # where it is not said, it is half of the window

    @property
    def takes(self) -> str:
        """Which values it takes, in words."""
        if self.kind == "word":
            return ", ".join(word.upper() for word in self.words)
        if self.kind == "flag":
            return "true or false"
        if self.kind == "levels":
            return "an ARRAY of numbers, ascending"
        if self.kind == "column":
            return "a column, or an expression of columns"
        if self.kind == "shape":
            return f"an ARRAY of {self.least:g} to {self.most:g} numbers"
        if self.kind == "duration":
            return "a duration"
        if self.kind == "elements":
            return "a duration, a multiple of `every`; without `every` a number of readings"
        number = "a number" if self.kind == "number" else "a whole number"
        return f"{number} from {self.least:g} to {self.most:g}"

    def example(self, every_us: int | None) -> str:
        """It with a value that it takes. `every_us`: the width of slots, None without them."""
        value = self.least if self.default is None else self.default
        if self.kind == "word":
            value = self.words[0].upper()
        elif self.kind == "flag":
            value = str(value).lower()
        elif self.kind == "levels":
            value = "ARRAY[5, 10]"
        elif self.kind == "shape":
            value = "ARRAY[0, 1, 3, 1, 0]"
        elif self.kind == "duration":
            value = "1 MINUTE"
        elif self.kind == "elements" and every_us is not None:
            value = f"'{format_duration(int(value) * every_us)}'"
        return f"{self.name} => {value}"


SLOT_FUNCTIONS = {"mean": "avg", "last": "last", "min": "min", "max": "max", "sum": "sum", "count": "count"}
"""How a slot gets its value: by the word of `slot`, the aggregate function."""
SET = "set"
"""That of symbols, where a slot has all that it has seen."""
SYMBOLS = ("TEXT", "BOOLEAN", "INT", "BIGINT")
EVERY = Parameter(
    "every",
    "duration",
    "the width of a slot, a multiple of 1 MS; without it each reading is an element",
    least=1000,
    most=2**62,
    usual="each reading is an element",
)
SLOT = Parameter(
    "slot", "word", "which value a slot has: that of all its readings together", "mean", words=tuple(SLOT_FUNCTIONS)
)


@dataclass(frozen=True, slots=True)
class MiningFunction:
    """One function. `takes`: numbers, which become a series; points, rows of numbers or of an array, of which a sample is kept; or vectors,
    arrays of numbers, which have a partial of their own. In front of points stands the first of the function's own parameters.

    `result` is a type for every argument, or finds it. `needs` says how many elements a window has to hold, at least.
    """

    name: str
    own: tuple[Parameter, ...]
    result: Type | Callable[[Type], Type]
    sentence: str
    example: str
    find: Callable[[Any, Options], Columns] | None = None  # in a `Series`, in many where it has `by`, or in a `Sample`
    needs: Callable[[Options], int] = lambda options: 1
    takes: Literal["numbers", "points", "vectors"] = "numbers"
    symbols: tuple[str, ...] = ()  # the types whose values are symbols as they are; numbers where `levels` are given
    symbol_slot: str = "last"  # the word of a slot of symbols
    note: str | Callable[[Options], str] = ""  # what EXPLAIN adds
    by_slots: bool = False  # it needs `every`
    element_us: float = 0.5  # microseconds an element takes, as long as it was not measured

    @property
    def by(self) -> bool:
        """Whether it sees a series per value of its argument `by`, instead of one."""
        return any(parameter.kind == "column" for parameter in self.own)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return (*self.own, EVERY, SLOT) if self.takes == "numbers" else self.own

    @property
    def signature(self) -> tuple[str, ...]:
        """Its arguments by place, as the reference shows them."""
        if self.takes == "points":
            return (self.own[0].name, "x", "..")
        return ("x",) if self.takes == "numbers" else ("a",)

    def note_of(self, options: Options) -> str:
        return self.note if isinstance(self.note, str) else self.note(options)

    def result_of(self, argument: Type) -> Type:
        return self.result if isinstance(self.result, Type) else self.result(argument)


def _sums_of(argument: Type) -> Type:
    whole = argument.element is not None and argument.element.kind != "DOUBLE"
    return Type("ARRAY", element=BIGINT if whole else DOUBLE)


def _sampled(options: Options) -> str:
    share = 50 / options["sample"] ** 0.5
    return f"exact; approximate once a group has more than {options['sample']} rows, its shares to {share:.2g} % (one sigma)"


_SEASON = Parameter("season", "elements", "the length of a season, such as 1 DAY", least=2)
_SCORING = (
    Parameter("score", "number", "the threshold: how many deviations off an anomaly is", 4.0, least=0.1, most=1000),
    Parameter(
        "history",
        "elements",
        "how much before an element its score looks at",
        least=20,
        most=100_000,
        usual="half the window",
        half_window=True,
    ),
    _SEASON,
    Parameter("seasons", "whole", "how many seasons before an element say what its place usually has", 4, most=20),
    Parameter("spread", "whole", "how many neighbours of that place count on each side", 1, least=0, most=5),
    Parameter("smooth", "elements", "elements are the mean of so many, their own being the last", 1, most=1000),
)
_ROBUST = Parameter("robust", "flag", "median and quartiles instead of mean and deviation", True)
_QUIET = Parameter("quiet", "elements", "none is reported so soon after another one", 0, least=0)
_SCORED = "at: TIMESTAMP, value: DOUBLE, expected: DOUBLE, lower: DOUBLE, upper: DOUBLE, score: DOUBLE"
_LEVELS = Parameter(
    "levels",
    "levels",
    "the symbol of a number is how many of these are at most the number; TEXT, BOOLEAN and whole numbers are symbols as they are",
)


def _causal(options: Options) -> str:
    reach, every_us = reach_of(options), options.get("every")
    before = format_duration(reach * every_us) if every_us else f"{reach} readings"
    return f"causal, each element is scored once, from the {before} before it; exact"


_TABLE = (
    MiningFunction(
        "series",
        (),
        parse_type("ARRAY<STRUCT<at: TIMESTAMP, value: DOUBLE>>"),
        "The elements themselves: the series that the other functions see.",
        "SERIES(ppm, every => 1 MINUTE)",
        elements,
        element_us=0.01,
    ),
    MiningFunction(
        "anomalies",
        (*_SCORING, _QUIET, _ROBUST),
        parse_type(f"ARRAY<STRUCT<{_SCORED}>>"),
        "The elements that are far from what those before them let expect.",
        "ANOMALIES(ppm, every => 1 MINUTE, history => 1 DAY)",
        anomalies,
        elements_needed,
        note=_causal,
    ),
    MiningFunction(
        "anomaly",
        (*_SCORING, _ROBUST),
        parse_type(f"STRUCT<{_SCORED}>"),
        "The newest element with its score, NULL where it has none.",
        "ANOMALY(ppm, every => 1 MINUTE, history => 1 DAY)",
        anomaly,
        elements_needed,
        note=_causal,
        element_us=0.2,
    ),
    MiningFunction(
        "baseline",
        (
            replace(_SEASON, required=True),
            Parameter("level", "number", "the share of values between lower and upper", 0.9, least=0.0, most=1.0),
        ),
        parse_type("ARRAY<STRUCT<place: INT, expected: DOUBLE, lower: DOUBLE, upper: DOUBLE, n: BIGINT>>"),
        "What is usual at each place of a season: the median, percentiles, and how many values there are.",
        "BASELINE(ppm, every => 1 HOUR, season => 1 DAY)",
        baseline,
        lambda options: int(options["season"]),
        by_slots=True,
        element_us=0.3,
    ),
    MiningFunction(
        "periods",
        (
            Parameter("strength", "number", "the least correlation with itself", 0.3, least=0.05, most=1.0),
            Parameter("repeats", "whole", "how often a period fits into the series, at least", 3, least=2, most=1000),
            Parameter("top", "whole", "how many are returned, at most", 3, most=1000),
            Parameter("detrend", "flag", "take the line of least squares away first, not only the mean", True),
        ),
        parse_type("ARRAY<STRUCT<lag: BIGINT, seconds: DOUBLE, strength: DOUBLE, confidence: DOUBLE>>"),
        "After how many elements the series repeats itself, the strongest first.",
        "PERIODS(ppm, every => 10 MINUTES)",
        periods,
        lambda options: 2 * int(options["repeats"]),
        symbols=("TEXT", "BOOLEAN"),
        element_us=0.8,
    ),
    MiningFunction(
        "periodic_patterns",
        (
            _LEVELS,
            Parameter("period", "elements", "the length of a period", least=2, usual="the first of PERIODS"),
            Parameter("phase", "elements", "how much later than 1970 periods are counted from", 0, least=0),
            Parameter(
                "confidence", "number", "the share of periods in which a pattern is true", 0.8, least=0.01, most=1.0
            ),
            Parameter("letters", "whole", "how many places a pattern has, at least", 1),
            Parameter("top", "whole", "how many are returned, at most", 10, most=1000),
        ),
        parse_type(
            "ARRAY<STRUCT<items: ARRAY<STRUCT<place: INT, value: TEXT>>, count: BIGINT, segments: BIGINT, confidence: DOUBLE>>"
        ),
        "Which symbols are at which places of most periods.",
        "PERIODIC_PATTERNS(ppm, every => 1 HOUR, period => 1 DAY, levels => ARRAY[5, 10])",
        periodic_patterns,
        lambda options: 3 * int(options["period"] or 2),
        by_slots=True,
        symbols=SYMBOLS,
        symbol_slot=SET,
    ),
    MiningFunction(
        "frequent_sequences",
        (
            Parameter("by", "column", "there is one sequence per value of it", required=True),
            Parameter(
                "share", "number", "the share of sequences in which a pattern occurs", 0.5, least=0.001, most=1.0
            ),
            Parameter("longest", "whole", "how many symbols a pattern has, at most", 5, least=2, most=100),
            Parameter("gap", "whole", "how many elements may lie between two symbols of a pattern", 0, least=0),
            Parameter("within", "elements", "how far apart the first and the last symbol may be"),
            Parameter("collapse", "flag", "equal neighbours are one element", True),
            Parameter("top", "whole", "how many are returned, at most", 20, most=1000),
            _LEVELS,
        ),
        parse_type("ARRAY<STRUCT<items: ARRAY<TEXT>, streams: BIGINT, share: DOUBLE>>"),
        "Which symbols follow each other in many sequences.",
        "FREQUENT_SEQUENCES(ppm, by => location, every => 1 HOUR, levels => ARRAY[5, 10])",
        frequent_sequences,
        lambda options: 2,
        symbols=SYMBOLS,
    ),
    MiningFunction(
        "change_points",
        (
            Parameter(
                "penalty", "number", "what a point has to save, in units of the noise", 3.0, least=0.1, most=1000
            ),
            Parameter("shortest", "whole", "the least number of values between two points", 10, least=2),
        ),
        parse_type("ARRAY<STRUCT<at: TIMESTAMP, before: DOUBLE, after: DOUBLE, gain: DOUBLE>>"),
        "Where the mean of the series changes.",
        "CHANGE_POINTS(ppm, every => 10 MINUTES)",
        change_points,
        lambda options: 2 * int(options["shortest"]),
        element_us=1.5,
    ),
    MiningFunction(
        "forecast",
        (
            Parameter("ahead", "whole", "how many elements are forecast", 1, most=1000),
            _SEASON,
            Parameter("level", "number", "the share of values that lie in the band", 0.95, least=0.01, most=0.9999),
        ),
        parse_type("ARRAY<STRUCT<at: TIMESTAMP, value: DOUBLE, lower: DOUBLE, upper: DOUBLE>>"),
        "The next elements, with a band.",
        "FORECAST(ppm, every => 10 MINUTES, ahead => 6)",
        forecast,
        lambda options: judged_from(options) + 1,
        by_slots=True,
        element_us=1.0,
    ),
    MiningFunction(
        "matches",
        (
            Parameter("shape", "shape", "what is looked for, a number per element", least=4, most=4096, required=True),
            Parameter("top", "whole", "how many are returned, at most", 3, most=1000),
            Parameter("normalise", "flag", "only the course counts, neither height nor size", True),
        ),
        parse_type("ARRAY<STRUCT<at: TIMESTAMP, distance: DOUBLE>>"),
        "Where the series looks like a shape, the nearest first.",
        "MATCHES(ppm, every => 10 MINUTES, shape => ARRAY[0, 1, 3, 1, 0])",
        matches,
        lambda options: len(options["shape"]),
    ),
    MiningFunction(
        "clusters",
        (
            Parameter("k", "whole", "how many clusters, at most", most=100, required=True),
            Parameter(
                "sample", "whole", "how many rows of a group are looked at, at most", 10_000, least=10, most=100_000
            ),
            Parameter("scale", "flag", "dimensions count in units of their deviation", True),
        ),
        parse_type("ARRAY<STRUCT<size: BIGINT, share: DOUBLE, center: ARRAY<DOUBLE>, radius: DOUBLE>>"),
        "Groups of rows that are near to each other, the largest first.",
        "CLUSTERS(3, ppm, celsius)",
        clusters,
        takes="points",
        note=_sampled,
        element_us=2.0,
    ),
    MiningFunction(
        "vector_sum",
        (),
        _sums_of,
        "The sum of arrays, element by element. A NULL element counts as 0.",
        "VECTOR_SUM(counts)",
        takes="vectors",
    ),
    MiningFunction(
        "vector_avg",
        (),
        Type("ARRAY", element=DOUBLE),
        "The average of arrays, element by element. A NULL element counts as 0.",
        "VECTOR_AVG(counts)",
        takes="vectors",
    ),
)
FUNCTIONS = {function.name: function for function in _TABLE}
