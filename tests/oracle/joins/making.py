"""Random join questions of every form: windows, conditions, hints, outer and anti joins, ordinary tables."""

from __future__ import annotations

import random
from typing import Any

from tests.oracle.joins.tables import OrdinaryTable, TableUse, make_uses, with_tables
from tests.oracle.joins.world import Combination, Question, Stream

SECOND = 1_000_000
ALIASES = "abcdef"


def make_question(
    random: random.Random, name: str, streams: list[Stream], tables: list[OrdinaryTable], most: int, share: float
) -> Question:
    """A join of any form over some of the streams; of one alone it is with ordinary tables."""
    count = random.randint(2, most) if most > 1 else 1
    chosen = [random.choice(streams) for _ in range(count)]
    aliases = tuple(ALIASES[:count])
    sensors = tuple(tuple(sorted(random.sample(range(1, 5), 2))) if random.random() < 0.4 else None for _ in aliases)
    clause, windows = _windows(random, aliases)
    conditions, holds = conditions_of(random, aliases)
    conditions += [
        f"{alias}.sensor IN ({', '.join(map(str, only))})" for alias, only in zip(aliases, sensors, strict=True) if only
    ]
    begin = random.choice([None, None, 2 * SECOND, 10 * SECOND, 100 * SECOND])
    window = "" if begin is None else f" BEGIN (NOW - {begin // SECOND} SECONDS) END (NOW)"
    missing = random.choice(["inner", "left", "anti"]) if count == 2 and random.random() < 0.4 else "inner"
    outputs = [f"{a}.{c} AS {a}_{c}" for a in aliases for c in ("sensor", "k", "v", "ts")]
    own = [c for c in conditions if c.startswith("a.sensor IN")]
    joint = [c for c in conditions if c not in own]
    hint = _hint(random, streams_count=count, conditions=conditions, windows=windows)
    joined = count == 1 or (missing == "inner" and random.random() < share)
    uses = make_uses(random, tables, aliases) if joined else []
    if missing != "inner":
        clause = clause.replace("WINDOW =", "WINDOW(a,b) =")  # of one pair, by name
    if missing == "left":
        on = " AND ".join(joint) or "TRUE"
        where = f" WHERE {own[0]}" if own else ""
        sql = (
            f"SELECT {', '.join(outputs)} FROM {chosen[0].name} a LEFT JOIN {chosen[1].name} b ON {on} {clause}{where}"
        )
    elif missing == "anti":
        inner = " AND ".join(joint)
        inside = f"SELECT 1 FROM {chosen[1].name} b {clause}{' WHERE ' + inner if inner else ''}"
        where = " AND ".join([*own, f"NOT EXISTS ({inside})"])
        sql = f"SELECT {', '.join(outputs[:4])} FROM {chosen[0].name} a WHERE {where}"
    else:
        sources = ", ".join(f"{s.name} {a}" for s, a in zip(chosen, aliases, strict=True))
        sources += "".join(use.from_item for use in uses)
        conditions += [c for use in uses for c in use.where]
        outputs += [column for use in uses for column in use.shown]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        sql = f"SELECT {hint}{', '.join(outputs)} FROM {sources} {clause}{where}"
    return Question(
        name, sql + window, aliases, tuple(chosen), sensors, windows, holds, begin, missing, extended=extended_by(uses)
    )


def extended_by(uses: list[TableUse]) -> Any:
    """What rows of ordinary tables, as they stood at the last reading, add to a combination: one tuple for each."""
    if not uses:
        return None

    def extended(combination: Combination) -> list[tuple[object, ...]]:
        moment = max(int(str(row["moment"])) for row in combination)
        return [
            tuple(rows[use.alias][c] for use in uses if use.in_from for c in ("id", "level", "name"))
            for rows in with_tables(uses, combination, moment, {})
        ]

    return extended


def _hint(random: random.Random, streams_count: int, conditions: list[str], windows: Any) -> str:
    """Half of the time some algorithm is asked for: it must never change an answer."""
    if streams_count == 1:
        return ""
    names = ["scan", "nested_loop", "backward", "gca", "lca", "extended"]
    if sum(".k = " in c or ".tag = " in c for c in conditions) == streams_count - 1:
        names += ["hash", "sorted_runs"]
    return f"/*+ JOIN({random.choice(names)}) */ " if random.random() < 0.5 else ""


def _windows(random: random.Random, aliases: tuple[str, ...]) -> tuple[str, tuple[tuple[int, int, int, int], ...]]:
    """A uniform clique, or a connected graph of single windows; nothing for one stream."""
    if len(aliases) == 1:
        return "", ()
    span = lambda: random.choice([0, 1, SECOND, 2 * SECOND, 7 * SECOND])  # noqa: E731
    count = len(aliases)
    if random.random() < 0.35:
        w = span()
        pairs = tuple((i, j, -w, w) for i in range(count) for j in range(i + 1, count))
        return f"WINDOW = {span_text(w)}", pairs
    edges = [(i, i + 1) for i in range(count - 1)]
    if random.random() < 0.4:
        edges = [(random.randrange(j), j) for j in range(1, count)]
    if count > 2 and random.random() < 0.4:
        edges.append((0, count - 1)) if (0, count - 1) not in edges else None
    clauses, windows = [], []
    for i, j in edges:
        kind, w = random.choice(["window", "directed", "between"]), span()
        if kind == "window":
            clauses.append(f"WINDOW({aliases[i]},{aliases[j]}) = {span_text(w)}")
            windows.append((i, j, -w, w))
        elif kind == "directed":
            clauses.append(f"DWINDOW({aliases[i]},{aliases[j]}) = {span_text(w)}")
            windows.append((i, j, 0, w))
        else:
            low = -span()
            clauses.append(f"WINDOW({aliases[i]},{aliases[j]}) BETWEEN -{span_text(-low)} AND {span_text(w)}")
            windows.append((i, j, low, w))
    return " AND ".join(clauses), tuple(windows)


def span_text(us: int) -> str:
    return f"{us // SECOND} SECONDS" if us % SECOND == 0 else f"INTERVAL '0.{us:06d}' SECOND"


def conditions_of(random: random.Random, aliases: tuple[str, ...]) -> tuple[list[str], Any]:
    """An equality over all, over some, a comparison of values, or nothing."""
    texts: list[str] = []
    tests: list[Any] = []
    if len(aliases) == 1:
        return _alone(random)
    kind = random.choice(["key", "key", "text", "some", "values", "none"])
    if kind in ("key", "text"):
        column = "k" if kind == "key" else "tag"
        for i in range(len(aliases) - 1):
            texts.append(f"{aliases[i]}.{column} = {aliases[i + 1]}.{column}")
            tests.append(lambda c, i=i, column=column: c[i][column] is not None and c[i][column] == c[i + 1][column])
    if kind == "some":
        texts.append("a.k = b.k")
        tests.append(lambda c: c[0]["k"] is not None and c[0]["k"] == c[1]["k"])
    if kind == "values" or random.random() < 0.3:
        i, j = random.sample(range(len(aliases)), 2)
        bound = random.choice([0.0, 1.0, 2.5])
        texts.append(f"abs({aliases[i]}.v - {aliases[j]}.v) <= {bound}")
        tests.append(
            lambda c, i=i, j=j, bound=bound: (
                c[i]["v"] is not None and c[j]["v"] is not None and abs(c[i]["v"] - c[j]["v"]) <= bound
            )
        )
    for place, alias in enumerate("ba"):
        if random.random() < 0.2:
            texts.append(f"{alias}.v > 0")
            tests.append(lambda c, i=1 - place: c[i]["v"] is not None and c[i]["v"] > 0)

    def holds(combination: Combination) -> bool:
        return all(test(combination) for test in tests)

    return texts, holds


def _alone(random: random.Random) -> tuple[list[str], Any]:
    """What one stream's readings have to satisfy: a comparison with a constant, a plain truth, or nothing."""
    bound = random.choice([None, None, 0.0, 1.5])
    texts = random.choice([[], ["TRUE"]]) + ([] if bound is None else [f"a.v >= {bound}"])
    return texts, lambda c: bound is None or (c[0]["v"] is not None and c[0]["v"] >= bound)
