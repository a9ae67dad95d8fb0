"""Aggregations by brute force: every answer from all rows, with nothing remembered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

Row = Mapping[str, Any]
Condition = tuple[str, Callable[[Row], bool]]


@dataclass(frozen=True)
class Question:
    """An aggregation as SQL and as plain functions."""

    name: str
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str | None], ...]  # (function, column)
    begin_us: int | None  # how far back from NOW; None: from the registration on
    end_us: int = 0
    pane_us: int | None = None
    step_us: int | None = None  # None: panes follow each other
    static: Condition | None = None
    stream: Condition | None = None
    having: int | None = None  # at least so many rows
    own_us: tuple[int | None, ...] = ()  # per aggregate: over the last part of the window alone
    newest: tuple[int, bool] | None = None  # instead of a window over time: so many rows, of each sensor
    latch_us: int | None = None  # LATCH: rows count for ever, from so long before the registration on
    beside: Question | None = (
        None  # a subquery: one aggregate of all rows, through this window or (begin_us None) the question's
    )
    compared: bool = False  # whether HAVING compares with it, beside showing it
    session_us: int | None = None  # SESSION: rows of a group at most so far apart
    distinct: bool = False  # SELECT DISTINCT of the keys, and nothing else

    @property
    def sql(self) -> str:
        calls = [_call(f, c, self.own(i)) for i, (f, c) in enumerate(self.aggregates)]
        items = [*self.keys, *(f"{call} AS a{i}" for i, call in enumerate(calls))]
        items += [f"({self.beside.as_value}) AS beside"] if self.beside is not None else []
        groups = list(self.keys)
        if self.pane_us is not None:
            items = ["window_start", "window_end", *items]
            step = f", {self.step_us // 1000} MS" if self.step_us is not None else ""
            groups.append(f"{'SLIDE' if step else 'TUMBLE'}({self.pane_us // 1000} MS{step})")
        if self.session_us is not None:
            items = ["window_start", "window_end", *items]
            groups.append(f"SESSION({self.session_us // 1000} MS)")
        if self.latch_us is not None:
            groups.append("LATCH")
        where = " AND ".join(text for text, _ in filter(None, (self.static, self.stream)))
        text = f"SELECT {'DISTINCT ' if self.distinct else ''}{', '.join(items)} FROM probes"
        text += f" WHERE {where}" if where else ""
        text += f" GROUP BY {', '.join(groups)}" if groups and not self.distinct else ""
        text += f" HAVING COUNT(*) >= {self.having}" if self.having is not None else ""
        if self.beside is not None and self.compared:
            text += f"{' HAVING' if self.having is None else ' AND'} 3 * COUNT(*) >= ({self.beside.as_value})"
        return f"{text} {self.window}"

    @property
    def as_value(self) -> str:
        """As a subquery inside of another question."""
        return self.sql if self.begin_us is not None else self.sql.removesuffix(self.window)

    def _beside(self, rows: Iterable[Row], now_us: int | None, start_us: int | None) -> Any:
        """What the subquery says."""
        inner = self.beside
        if inner is None:
            return None
        if inner.begin_us is None:
            inner = replace(inner, begin_us=self.begin_us, end_us=self.end_us, newest=self.newest)
        found = inner.answer(rows, now_us, start_us)
        return found[0][0] if found else None

    def own(self, place: int) -> int | None:
        return self.own_us[place] if self.own_us else None

    @property
    def window(self) -> str:
        if self.newest is not None:
            return f"BEGIN (LAST {self.newest[0]} ROWS{' PER SENSOR' if self.newest[1] else ''})"
        if self.latch_us is not None:
            return f"BEGIN (START - {self.latch_us // 1000} MS)" if self.latch_us else ""
        if self.begin_us is None:
            return "BEGIN (START) END (NOW)"
        end = f"NOW - {self.end_us // 1000} MS" if self.end_us else "NOW"
        return f"BEGIN (NOW - {self.begin_us // 1000} MS) END ({end})"

    def passes(self, row: Row) -> bool:
        return self.static is None or self.static[1](row)

    def answer(self, rows: Iterable[Row], now_us: int | None, start_us: int | None) -> list[tuple[Any, ...]]:
        """The answer over these rows, sorted."""
        inside: list[Row] = []
        if self.newest is not None:
            inside = [r for r in self._newest(rows) if self.stream is None or self.stream[1](r)]
        elif self.latch_us is not None:
            low = start_us - self.latch_us if start_us is not None else -(2**62)
            inside = [
                r for r in rows if self.passes(r) and (self.stream is None or self.stream[1](r)) and low <= r["ts"]
            ]
        elif now_us is not None:
            low = (
                now_us - self.begin_us
                if self.begin_us is not None
                else (start_us if start_us is not None else -(2**62))
            )
            inside = [
                r
                for r in rows
                if self.passes(r)
                and (self.stream is None or self.stream[1](r))
                and low <= r["ts"] <= now_us - self.end_us
            ]
        value = self._beside(rows, now_us, start_us)
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in inside:
            for pane in panes_of(row["ts"], self.pane_us, self.step_us):
                groups.setdefault((*pane, *(_key(row[k]) for k in self.keys)), []).append(row)
        if self.session_us is not None:
            groups = dict(sessions_of(groups, self.session_us))
        elif not self.keys and self.pane_us is None:
            groups.setdefault((), [])
        found = [
            (
                *key,
                *(
                    aggregate(f, c, self._last(mine, i, now_us), self._until(key, now_us))
                    for i, (f, c) in enumerate(self.aggregates)
                ),
                *([] if self.beside is None else [value]),
            )
            for key, mine in groups.items()
            if (self.having is None or len(mine) >= self.having)
            and (not self.compared or (value is not None and 3 * len(mine) >= value))
        ]
        return sorted(found, key=repr)

    def _until(self, key: tuple[Any, ...], now_us: int | None) -> int:
        end = (now_us or 0) - (self.end_us if self.newest is None else 0)
        return end if self.pane_us is None and self.session_us is None else min(end, key[1])

    def _newest(self, rows: Iterable[Row]) -> list[Row]:
        assert self.newest is not None
        count, per_sensor = self.newest
        of: dict[Any, list[Row]] = {}
        for row in sorted((r for r in rows if self.passes(r)), key=lambda r: (r["ts"], r["position"])):
            of.setdefault(row["id"] if per_sensor else None, []).append(row)
        return [row for each in of.values() for row in each[-count:]]

    def _last(self, rows: list[Row], place: int, now_us: int | None) -> list[Row]:
        own = self.own(place)
        return rows if own is None or now_us is None else [r for r in rows if r["ts"] >= now_us - self.end_us - own]


def sessions_of(
    groups: Mapping[tuple[Any, ...], list[Row]], gap_us: int
) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """The rows of each session of each group, with its edges before the key."""
    for key, rows in groups.items():
        session: list[Row] = []
        for row in sorted(rows, key=lambda r: r["ts"]):
            if session and row["ts"] - session[-1]["ts"] > gap_us:
                yield (session[0]["ts"], session[-1]["ts"] + gap_us, *key), session
                session = []
            session.append(row)
        yield (session[0]["ts"], session[-1]["ts"] + gap_us, *key), session


def panes_of(ts: int, width: int | None, step: int | None) -> Iterator[tuple[int, ...]]:
    """Start and end of every pane that a time lies in, the latest first; once nothing where there are no panes."""
    if width is None:
        yield ()
        return
    start = ts // (step or width) * (step or width)
    while start + width > ts:
        yield start, start + width
        start -= step or width


def _call(function: str, column: str | None, own_us: int | None = None) -> str:
    if own_us is not None:
        head, _, condition = _call(function, column).partition(" FILTER")
        return f"{head[:-1]}, {own_us // 1000} MS)" + (f" FILTER{condition}" if condition else "")
    if function == "filtered":
        return f"SUM({column}) FILTER (WHERE kind = 2)"
    if function in ("first_known", "last_known"):
        return f"{function.removesuffix('_known')}({column}) FILTER (WHERE {column} IS NOT NULL)"
    if function.endswith("_distinct"):
        return f"{function.removesuffix('_distinct')}(DISTINCT {column})"
    if function == "percentile":
        return f"PERCENTILE({column}, 0.9)"
    if function == "percentile_cont":
        return f"PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY {column})"
    if function.startswith(("percentile_disc", "mode")):
        call = "MODE()" if function.startswith("mode") else "PERCENTILE_DISC(0.4)"
        return f"{call} WITHIN GROUP (ORDER BY {column}{' DESC' if function.endswith('_desc') else ''})"
    return f"{function}({column}, whole)" if function == "corr" else f"{function}({column or '*'})"


def aggregate(function: str, column: str | None, rows: list[Row], until_us: int = 0) -> Any:
    if column is None:
        return len(rows)
    if function in ("first", "last"):
        ordered = sorted(rows, key=lambda r: (r["ts"], r["position"]))
        return ordered[0 if function == "first" else -1][column] if ordered else None
    if function in ("first_known", "last_known"):
        return aggregate(function.removesuffix("_known"), column, [row for row in rows if row[column] is not None])
    if function == "filtered":
        return aggregate("sum", column, [row for row in rows if row["kind"] == 2])
    if function == "corr":
        return _corr([(row[column], row["whole"]) for row in rows if None not in (row[column], row["whole"])])
    if function == "twa":
        return _twa(sorted((r["ts"], r["position"], r[column]) for r in rows if r[column] is not None), until_us)
    values = [_one_nan(row[column]) for row in rows if row[column] is not None]
    if function == "count":
        return len(values)
    if function.endswith("_distinct"):
        # 0.0 and -0.0 are one value, NaNs too.
        values = list({repr(v + 0.0) if isinstance(v, float) else v: v for v in values}.values())
        return aggregate(function.removesuffix("_distinct"), "x", [{"x": v} for v in values])
    if not values:
        return None
    if function in FRACTIONS:
        return _percentile(sorted(values, key=_rank), FRACTIONS[function])
    if function.startswith(("percentile_disc", "mode")):
        return _in_order(function, sorted(values, key=_rank, reverse=function.endswith("_desc")))
    if function in ("min", "max"):
        ranked = sorted(values, key=_rank)
        return ranked[0] if function == "min" else ranked[-1]
    if function == "sum":
        return _sum(values) if isinstance(values[0], float) else sum(values)
    if function == "avg":
        return _sum(values) / len(values)
    count = len(values) - function.endswith("_samp")
    if count == 0:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact, unit = _whole(values)
    about = len(exact) * sum(v * v for v in exact) - sum(exact) ** 2
    spread = float(Fraction(about, len(exact) * count * unit**2))
    return math.sqrt(spread) if function.startswith("stddev") else spread


def _twa(readings: list[tuple[int, int, Any]], until_us: int) -> float | None:
    """What stood when, second reading by second reading."""
    if not readings:
        return None
    ends = [*(ts for ts, _, _ in readings[1:]), max(until_us, readings[-1][0])]
    spans = [(float(value), end - ts) for (ts, _, value), end in zip(readings, ends, strict=True)]
    total = sum(span for _, span in spans)
    return _sum([value * span for value, span in spans if span]) / total if total else spans[-1][0]


FRACTIONS = {"percentile": 0.9, "median": 0.5, "percentile_cont": 0.25}


def _percentile(values: list[Any], fraction: float) -> float:
    """In doubles and in Spark's order of steps: where two values nearly cancel out, the order shows."""
    place = (len(values) - 1) * fraction
    low, high = math.floor(place), math.ceil(place)
    below, above = float(values[low]), float(values[high])
    return below if below == above else (high - place) * below + (place - low) * above


def _in_order(function: str, values: list[Any]) -> Any:
    if function.startswith("mode"):
        return max(values, key=values.count)  # the first of several
    return float(next(v for i, v in enumerate(values) if i + 1 >= 0.4 * len(values)))


def _corr(pairs: list[tuple[Any, Any]]) -> float | None:
    if len(pairs) < 2:
        return None
    if not all(math.isfinite(x) and math.isfinite(y) for x, y in pairs):
        return math.nan
    (xs, _), (ys, _) = (_whole([pair[i] for pair in pairs]) for i in (0, 1))
    count, x, y = len(pairs), sum(xs), sum(ys)
    both = count * sum(a * b for a, b in zip(xs, ys, strict=True)) - x * y
    spread = (count * sum(a * a for a in xs) - x * x) * (count * sum(b * b for b in ys) - y * y)
    return both / math.isqrt(spread << 200) * 2.0**100 if spread else None


def _whole(values: list[Any]) -> tuple[list[int], int]:
    """Exactly the same numbers as multiples of a unit, and how many of it are 1."""
    ratios = [v.as_integer_ratio() for v in values]
    unit = max(below for _, below in ratios)
    return [above * (unit // below) for above, below in ratios], unit


def _sum(values: list[float]) -> float:
    """Exactly rounded; with infinities of both signs, or a NaN, it is NaN."""
    return math.fsum(values) if all(map(math.isfinite, values)) else sum(values)


def _rank(value: Any) -> tuple[bool, Any]:
    """NaN comes after every number."""
    return isinstance(value, float) and math.isnan(value), value


def _one_nan(value: Any) -> Any:
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def _key(value: Any) -> Any:
    """NaNs are one group, and so are both zeros."""
    return 0.0 if isinstance(value, float) and value == 0 else _one_nan(value)


def same(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
        for a, b in zip(ours, theirs, strict=True)
    )


def differing(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> tuple[list[Any], list[Any]]:
    """The rows of each side that are not in the same place of the other one."""
    pairs = list(zip(ours, theirs, strict=False))
    unlike = [(a, b) for a, b in pairs if not same([a], [b])]
    return [a for a, _ in unlike] + ours[len(pairs) :], [b for _, b in unlike] + theirs[len(pairs) :]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-300)
    return type(a) is type(b) and bool(a == b)
