"""A process of its own that rehearses, then runs cycles of every kind; prints the kernels that it had to get meanwhile."""

from __future__ import annotations

import sys
from pathlib import Path

from numba.core.dispatcher import Dispatcher

from penstock.clock import SECOND
from penstock.pipeline.kernel_warmup import PARTS
from tests.support.pipe import BEGAN_US, Pipe

WINDOW = "BEGIN (NOW - 1 MINUTE) END (NOW)"
PAIR = "SELECT a.n AS a, b.n AS b FROM t a, u b WINDOW(a,b) = 1 SECOND WHERE"
AGGREGATES = ("SUM", "AVG", "MIN", "MAX", "FIRST", "LAST", "STDDEV")
QUERIES = (
    *(f"SELECT n FROM t WHERE {column} > {i} {WINDOW}" for i in range(40) for column in ("x", "k")),
    f"SELECT n FROM t WHERE place = 'here' AND (x > 1 OR k > 2) {WINDOW}",
    "SELECT n FROM t BEGIN (LAST 1 ROWS PER SENSOR)",
    f"SELECT COUNT(*) AS c, {', '.join(f'{f}({c})' for f in AGGREGATES for c in ('x', 'n'))}, CORR(x, n) FROM t {WINDOW}",
    f"SELECT place, k, AVG(x), MAX(n), LAST(x), VARIANCE(x) FROM t WHERE x > 3 GROUP BY place, k, TUMBLE(500 MS) {WINDOW}",
    "SELECT APPROX_COUNT(*), APPROX_SUM(x), APPROX_SUM(n), APPROX_DISTINCT(s), APPROX_PERCENTILE(x, 0.5), APPROX_TOP_K(s, 2),"
    f" APPROX_NORM(n) FROM t {WINDOW}",
    "SELECT k, ANOMALIES(x, every => 1 SECOND, history => 20 SECONDS, season => 5 SECONDS) AS a, ANOMALY(x, history => 20) AS b,"
    " BASELINE(x, every => 1 SECOND, season => 3 SECONDS) AS c, PERIODS(x) AS p, CHANGE_POINTS(x, shortest => 2) AS d,"
    " FORECAST(x, every => 1 SECOND, season => 2 SECONDS) AS e, MATCHES(x, shape => ARRAY[1, 2, 3, 1]) AS m,"
    " MATCHES(x, shape => ARRAY[1, 2, 3, 1], normalise => false) AS u,"
    " CLUSTERS(2, x, n) AS g, CLUSTERS(2, n, x, scale => false) AS h"
    f" FROM t GROUP BY k {WINDOW}",
    f"SELECT COUNT(*) AS c, SUM(x) AS y FROM t WHERE x >= 0.9 * (SELECT MAX(x) FROM t) {WINDOW}",
    f"SELECT k, SUM(n) AS y FROM t o WHERE n >= (SELECT MIN(n) FROM t i WHERE i.k = o.k) GROUP BY k {WINDOW}",
    f"{PAIR} a.k = b.k {WINDOW}",
    f"{PAIR} a.k = b.k AND a.s = b.s {WINDOW}",
    f"{PAIR.replace('SELECT', 'SELECT /*+ JOIN(hash) */')} a.k = b.k {WINDOW}",
    f"{PAIR.replace('SELECT', 'SELECT /*+ JOIN(forward_hash) */')} a.k = b.k {WINDOW}",
    f"{PAIR} a.x < b.x + 1.0 {WINDOW}",
    f"{PAIR} a.x < b.x + 2.0 {WINDOW}",
    f"{PAIR} (a.x - b.x) * (a.x - b.x) < 9.0 {WINDOW}",
    f"{PAIR} a.s = 'x' {WINDOW}",
    f"SELECT a.n, p.name FROM t a, u b, places p WINDOW(a,b) = 1 SECOND WHERE a.k = b.k AND p.k = a.k {WINDOW}",
    f"SELECT a.n FROM t a LEFT JOIN u b ON a.k = b.k WINDOW(a,b) = 1 SECOND {WINDOW}",
    f"SELECT a.n FROM t a, u b, t c WINDOW = 1 SECOND WHERE a.k = b.k AND c.x > a.x AND c.place = 'here' {WINDOW}",
)


def kernels() -> dict[str, set[object]]:
    """The types that each kernel is ready for."""
    return {
        f"{name}.{attribute}": set(value.signatures)
        for name, module in list(sys.modules.items())
        if name.startswith("penstock.")
        for attribute, value in vars(module).items()
        if isinstance(value, Dispatcher) and value.py_func.__module__ == name
    }


def run(pipe: Pipe) -> None:
    for table in ("t", "u"):
        pipe.db.execute(
            f"CREATE TABLE {table} (id INT PRIMARY KEY, place TEXT, r STREAM (k INT, n BIGINT, x DOUBLE, s TEXT))"
            " DEDUPLICATE BY (n) WITHIN 1 SECOND WITH (time = 'valid', out_of_order = 'accept')"
        )
        pipe.db.execute(f"INSERT INTO {table} VALUES (1, 'here', NULL), (2, 'there', NULL)")
    pipe.db.execute("CREATE TABLE places (k INT PRIMARY KEY, name TEXT)")
    pipe.db.execute("INSERT INTO places VALUES (1, 'one'), (2, 'two')")
    for number, query in enumerate(QUERIES):
        pipe.db.execute(f"CREATE QUERY q{number} AS {query}")
    for cycle in range(4):
        pipe.clock.advance(SECOND)
        for segment in range(1 + cycle % 2):
            for table in ("t", "u"):
                pipe.db.push(
                    table,
                    [
                        {
                            "id": 1 + i % 2,
                            "ts": BEGAN_US + cycle * SECOND + segment * 1000 + i,
                            "k": i % 5,
                            "n": cycle * 1000 + segment * 100 + i,
                            "x": None if i % 7 == 0 else float(i),
                            "s": "x",
                        }
                        for i in range(60)
                    ],
                )
        pipe.engine.drain()
    for number in range(len(QUERIES)):
        pipe.db.standing.invoke(f"q{number}")


if __name__ == "__main__":
    for rehearse in PARTS.values():
        rehearse()
    ready = kernels()
    world = Pipe(Path(sys.argv[1]))
    try:
        run(world)
    finally:
        world.db.stop()
    for kernel, types in kernels().items():
        for new in types - ready.get(kernel, set()):
            print(kernel, new)
