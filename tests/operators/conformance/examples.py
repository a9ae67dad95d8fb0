"""Questions per operator. A new operator adds its own here; without them the suite fails.

Tables `a` and `b` have sensors 1 to 3, a whole number n and a number v. Queries of BELOW are there before. The oracle says the same in
DuckDB, over `a` and `b` with the readings of the last minute and over `a_log` with all of them, each with its log position `pos`.
Questions without one are held against plain loops elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    sql: str
    oracle: str | None = None


MINUTE = "BEGIN (NOW - 1 MINUTE) END (NOW)"
EVER = "BEGIN ('2020-01-01') END (NOW)"
JOIN = "FROM a, b WINDOW = 5 SECONDS WHERE a.id = b.id"
NEAR = "FROM a JOIN b ON a.id = b.id AND abs(a.ts - b.ts) <= 5 * second()"
PAIRS = f"(SELECT a.n, b.n AS m {NEAR})"
BELOW = {"pairs": f"SELECT a.n, b.n AS m {JOIN} {MINUTE}"}
EXAMPLES: dict[str, list[Example]] = {
    "select": [
        Example(f"SELECT id, n, v FROM a WHERE v > 3 {MINUTE}", "SELECT id, n, v FROM a WHERE v > 3"),
        Example(
            "SELECT n FROM a WHERE place <> 'south' BEGIN (LAST 4 ROWS)",
            "SELECT n FROM a_log WHERE place <> 'south' ORDER BY ts DESC, pos DESC LIMIT 4",
        ),
        Example(
            f"SELECT n FROM a WHERE v > 2 FOR 5 SECONDS {MINUTE}",
            "SELECT n FROM a WHERE EXISTS (SELECT 1 FROM a_log s WHERE s.id = a.id AND s.ts <= a.ts - 5 * second()"
            " AND (SELECT bool_and(v > 2) FROM a_log x WHERE x.id = a.id AND (x.ts, x.pos) BETWEEN (s.ts, s.pos) AND (a.ts, a.pos)))",
        ),
    ],
    "join": [
        Example(f"SELECT a.n, b.n AS m {JOIN} {MINUTE}", f"SELECT a.n, b.n {NEAR}"),
        Example(
            f"SELECT a.n, b.n AS m FROM a LEFT JOIN b ON a.id = b.id WINDOW = 5 SECONDS {MINUTE}",
            f"SELECT a.n, b.n {NEAR.replace('JOIN', 'LEFT JOIN')} WHERE b.n IS NOT NULL OR a.ts + 5 * second() < now_us()",
        ),
        Example(
            f"SELECT a.n, p.owner FROM a JOIN places p ON p.place = a.place {MINUTE}",
            "SELECT a.n, p.owner FROM a JOIN places p ON p.place = a.place",
        ),
    ],
    "aggregate": [
        Example(
            f"SELECT place, COUNT(*) AS c, AVG(v) AS mean, MAX(n) AS top FROM a GROUP BY place {MINUTE}",
            "SELECT place, COUNT(*), AVG(v), MAX(n) FROM a GROUP BY place",
        ),
        Example(
            f"SELECT SUM(n) AS s FROM a HAVING COUNT(*) > 2 {MINUTE}",
            "SELECT SUM(n)::BIGINT FROM a HAVING COUNT(*) > 2",
        ),
        Example(
            "SELECT id, MAX(v) AS top FROM a GROUP BY id BEGIN (LAST 5 ROWS)",
            "SELECT id, MAX(v) FROM (SELECT * FROM a_log ORDER BY ts DESC, pos DESC LIMIT 5) GROUP BY id",
        ),
        Example(
            f"SELECT id, COUNT(*) AS c, MIN(v) AS least FROM a GROUP BY id, SESSION(3 SECONDS) {MINUTE}",
            "SELECT id, COUNT(*), MIN(v) FROM (SELECT id, v, SUM(begins) OVER (PARTITION BY id ORDER BY ts, pos) AS session FROM"
            " (SELECT *, (coalesce(ts - LAG(ts) OVER (PARTITION BY id ORDER BY ts, pos), 0) > 3 * second())::INT AS begins FROM a)) GROUP BY id, session",
        ),
        Example(
            f"SELECT id, COUNT(*) AS c, RANK() OVER (ORDER BY COUNT(*)) AS r FROM a GROUP BY id QUALIFY r < 3 {MINUTE}",
            "SELECT id, COUNT(*) AS c, RANK() OVER (ORDER BY COUNT(*)) AS r FROM a GROUP BY id QUALIFY r < 3",
        ),
        Example(
            f"SELECT id, COUNT(*) AS c FROM a GROUP BY id, TUMBLE(5 SECONDS) {MINUTE}",
            "SELECT id, COUNT(*) FROM a GROUP BY id, ts // (5 * second())",
        ),
        Example(
            f"SELECT place, MAX(v) AS top, COUNT(*) AS c FROM a GROUP BY place, LATCH {EVER}",
            "SELECT place, MAX(v), COUNT(*) FROM a_log GROUP BY place",
        ),
        Example(
            f"SELECT COUNT(*) AS c, MAX(n) AS top FROM a GROUP BY LANDMARK (v > 3) {MINUTE}",
            "SELECT COUNT(*), MAX(n) FROM (SELECT n, (SELECT MAX(ts) FROM a m WHERE m.v > 3 AND m.ts <= a.ts) AS mark FROM a)"
            " WHERE mark IS NOT NULL GROUP BY mark",
        ),
    ],
    "join_aggregate": [
        Example(f"SELECT COUNT(*) AS c, SUM(a.n) AS s {JOIN} {MINUTE}", f"SELECT COUNT(*), SUM(a.n)::BIGINT {NEAR}"),
        Example(
            f"SELECT a.place, MAX(b.v) AS top {JOIN} GROUP BY a.place {MINUTE}",
            f"SELECT a.place, MAX(b.v) {NEAR} GROUP BY a.place",
        ),
        Example(
            f"SELECT a.id, AVG(a.v - b.v) AS d {JOIN} GROUP BY a.id HAVING COUNT(*) > 1 {MINUTE}",
            f"SELECT a.id, AVG(a.v - b.v) {NEAR} GROUP BY a.id HAVING COUNT(*) > 1",
        ),
        Example(
            f"SELECT COUNT(*) AS c {JOIN} GROUP BY TUMBLE(5 SECONDS) {MINUTE}",
            f"SELECT COUNT(*) {NEAR} GROUP BY greatest(a.ts, b.ts) // (5 * second())",
        ),
    ],
    "query_aggregate": [
        Example(f"SELECT COUNT(*) AS c FROM pairs {MINUTE}", f"SELECT COUNT(*) FROM {PAIRS}"),
        Example(
            f"SELECT m, SUM(n) AS s FROM pairs GROUP BY m {MINUTE}", f"SELECT m, SUM(n)::BIGINT FROM {PAIRS} GROUP BY m"
        ),
        Example(
            f"SELECT MAX(n) AS top FROM pairs HAVING COUNT(*) > 1 {MINUTE}",
            f"SELECT MAX(n) FROM {PAIRS} HAVING COUNT(*) > 1",
        ),
        Example(
            f"SELECT COUNT(*) AS c FROM pairs GROUP BY TUMBLE(5 SECONDS) {MINUTE}",
            f"SELECT COUNT(*) {NEAR} GROUP BY greatest(a.ts, b.ts) // (5 * second())",
        ),
    ],
    # Held against loops in tests/operators/resample.
    "resample": [
        Example(f"SELECT a.n, RESAMPLE(b.v, 5 SECONDS, LINEAR) AS v FROM a, b WHERE a.id = b.id {MINUTE}"),
        Example(f"SELECT a.n, RESAMPLE(b.n, 5 SECONDS, PREVIOUS) AS m FROM a, b WHERE a.id = b.id {MINUTE}"),
        Example(f"SELECT a.n, RESAMPLE(b.v, 3 SECONDS, MEAN) AS v FROM a, b WHERE a.id = b.id AND a.v > 2 {MINUTE}"),
    ],
    "window_functions": [
        Example(
            f"SELECT id, n, v FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY place ORDER BY v DESC) <= 2 {MINUTE}",
            "SELECT id, n, v FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY place ORDER BY v DESC, ts, pos) <= 2",
        ),
        Example(
            f"SELECT id, n, v - LAG(v) OVER (PARTITION BY id ORDER BY ts) AS d, LEAD(n) OVER (PARTITION BY id ORDER BY ts) AS m FROM a {MINUTE}",
            "SELECT id, n, v - LAG(v) OVER w, LEAD(n) OVER w FROM a WINDOW w AS (PARTITION BY id ORDER BY ts, pos)",
        ),
        Example(
            f"SELECT id, n, RANK() OVER (PARTITION BY id ORDER BY v) AS r FROM a QUALIFY r < 3 {MINUTE}",
            "SELECT id, n, RANK() OVER (PARTITION BY id ORDER BY v) AS r FROM a QUALIFY r < 3",
        ),
        Example(
            f"SELECT id, v, LAG(v) OVER (PARTITION BY id ORDER BY ts) AS before FROM a {EVER}",
            "SELECT id, v, LAG(v) OVER (PARTITION BY id ORDER BY ts, pos) FROM a_log",
        ),
    ],
    "union": [
        Example(
            f"SELECT n, v FROM a {MINUTE} UNION ALL SELECT n, v FROM b {MINUTE}",
            "SELECT n, v FROM a UNION ALL SELECT n, v FROM b",
        ),
        Example(
            f"SELECT n, ts FROM a WHERE v > 2 UNION ALL SELECT v, ts FROM a WHERE place <> 'south' {MINUTE}"
            " UNION ALL SELECT 7, ts FROM b BEGIN (LAST 4 ROWS)"
        ),
        # Held against loops in tests/operators/union.
        Example(
            f"SELECT a.n, b.n AS m, c.v FROM a, b, a c DWINDOW PATH(a, b, c) = 5 SECONDS BOTH WAYS WHERE a.id = b.id {MINUTE}"
        ),
        Example(
            f"SELECT a.n, b.n AS m, b.ts AS t FROM a FULL JOIN b ON a.id = b.id AND b.v > 2 WINDOW(a, b) = 3 SECONDS {MINUTE}"
        ),
        Example(
            f"SELECT a.n, b.n AS m FROM a FULL JOIN b ON a.id = b.id WINDOW(a, b) = 0 SECONDS {MINUTE}",
            "SELECT a.n, b.n FROM a FULL JOIN b ON a.id = b.id AND a.ts = b.ts"
            " WHERE (a.n IS NOT NULL AND b.n IS NOT NULL) OR coalesce(a.ts, b.ts) < now_us()",
        ),
        Example(
            f"SELECT id, n FROM a WHERE place = 'west' {MINUTE} UNION ALL SELECT id, n FROM b WHERE v > 2 FOR 5 SECONDS {MINUTE}"
        ),
    ],
    "union_aggregate": [
        Example(
            f"SELECT id, COUNT(*) AS c, AVG(n) AS mean FROM (SELECT id, n FROM a WHERE v > 1 UNION ALL SELECT id, n FROM b) u GROUP BY id {MINUTE}",
            "SELECT id, COUNT(*), AVG(n) FROM (SELECT id, n FROM a WHERE v > 1 UNION ALL SELECT id, n FROM b) GROUP BY id",
        ),
        Example(
            f"SELECT SUM(n) AS s, MAX(v) AS top FROM (SELECT n, v FROM a UNION ALL SELECT 3, v FROM a WHERE place <> 'west') u {MINUTE}",
            "SELECT SUM(n)::BIGINT, MAX(v) FROM (SELECT n, v FROM a UNION ALL SELECT 3, v FROM a WHERE place <> 'west')",
        ),
        Example(
            f"SELECT what, COUNT(DISTINCT n) AS c FROM (SELECT 'a' AS what, n FROM a UNION ALL SELECT 'b', n FROM b) u WHERE n > 1"
            f" GROUP BY what HAVING COUNT(*) > 2 {MINUTE}",
            "SELECT what, COUNT(DISTINCT n) FROM (SELECT 'a' AS what, n FROM a UNION ALL SELECT 'b', n FROM b) WHERE n > 1"
            " GROUP BY what HAVING COUNT(*) > 2",
        ),
    ],
    "sparksql": [
        Example(f"SELECT n, v FROM a {MINUTE} ORDER BY v DESC, n LIMIT 4"),
        Example(f"SELECT id, n, MAX(v) OVER (PARTITION BY id) AS top FROM a {MINUTE}"),
        Example(f"SELECT n, m FROM pairs WHERE n > m {MINUTE}"),
    ],
}
# The operators of the tests, which a case registers for itself, with their packages.
OF_TESTS = {"top": "tests.operators.example", "tally": "tests.operators.tally"}
EXAMPLES_OF_TESTS: dict[str, list[Example]] = {
    "top": [
        Example(
            f"SELECT n, v FROM a WHERE v > 1 ORDER BY v DESC, n LIMIT 4 {MINUTE}",
            "SELECT n, v FROM a WHERE v > 1 ORDER BY v DESC, n LIMIT 4",
        )
    ],
    "tally": [
        Example("SELECT COUNT(*) AS readings FROM a BEGIN (START - 1 HOUR) END (NOW)", "SELECT COUNT(*) FROM a_log")
    ],
}
