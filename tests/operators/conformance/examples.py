"""Three questions per operator. A new operator adds its own here; without them the suite fails.

Tables `a` and `b` have sensors 1 to 3, a whole number n and a number v. Queries of BELOW are there before.
"""

from __future__ import annotations

MINUTE = "BEGIN (NOW - 1 MINUTE) END (NOW)"
JOIN = "FROM a, b WINDOW = 5 SECONDS WHERE a.id = b.id"
BELOW = {"pairs": f"SELECT a.n, b.n AS m {JOIN} {MINUTE}"}
EXAMPLES: dict[str, list[str]] = {
    "select": [
        f"SELECT id, n, v FROM a WHERE v > 3 {MINUTE}",
        "SELECT n FROM a WHERE place <> 'south' BEGIN (LAST 4 ROWS)",
        f"SELECT n FROM a WHERE v > 2 FOR 5 SECONDS {MINUTE}",
    ],
    "join": [
        f"SELECT a.n, b.n AS m {JOIN} {MINUTE}",
        f"SELECT a.n, b.n AS m FROM a LEFT JOIN b ON a.id = b.id WINDOW = 5 SECONDS {MINUTE}",
        f"SELECT a.n, p.owner FROM a JOIN places p ON p.place = a.place {MINUTE}",
    ],
    "aggregate": [
        f"SELECT place, COUNT(*) AS c, AVG(v) AS mean, MAX(n) AS top FROM a GROUP BY place {MINUTE}",
        f"SELECT SUM(n) AS s FROM a HAVING COUNT(*) > 2 {MINUTE}",
        "SELECT id, MAX(v) AS top FROM a GROUP BY id BEGIN (LAST 5 ROWS)",
        f"SELECT id, window_start, window_end, COUNT(*) AS c FROM a GROUP BY id, SESSION(3 SECONDS) {MINUTE}",
        f"SELECT id, COUNT(*) AS c, RANK() OVER (ORDER BY COUNT(*)) AS r FROM a GROUP BY id QUALIFY r < 3 {MINUTE}",
    ],
    "join_aggregate": [
        f"SELECT COUNT(*) AS c, SUM(a.n) AS s {JOIN} {MINUTE}",
        f"SELECT a.place, MAX(b.v) AS top {JOIN} GROUP BY a.place {MINUTE}",
        f"SELECT a.id, AVG(a.v - b.v) AS d {JOIN} GROUP BY a.id HAVING COUNT(*) > 1 {MINUTE}",
    ],
    "query_aggregate": [
        f"SELECT COUNT(*) AS c FROM pairs {MINUTE}",
        f"SELECT m, SUM(n) AS s FROM pairs GROUP BY m {MINUTE}",
        f"SELECT MAX(n) AS top FROM pairs HAVING COUNT(*) > 1 {MINUTE}",
    ],
    "resample": [
        f"SELECT a.n, RESAMPLE(b.v, 5 SECONDS, LINEAR) AS v FROM a, b WHERE a.id = b.id {MINUTE}",
        f"SELECT a.n, RESAMPLE(b.n, 5 SECONDS, PREVIOUS) AS m FROM a, b WHERE a.id = b.id {MINUTE}",
        f"SELECT a.n, RESAMPLE(b.v, 3 SECONDS, MEAN) AS v FROM a, b WHERE a.id = b.id AND a.v > 2 {MINUTE}",
    ],
    "window_functions": [
        f"SELECT id, n, v FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY place ORDER BY v DESC) <= 2 {MINUTE}",
        f"SELECT id, n, v - LAG(v) OVER (PARTITION BY id ORDER BY ts) AS d, LEAD(n) OVER (PARTITION BY id ORDER BY ts) AS m FROM a {MINUTE}",
        f"SELECT id, n, RANK() OVER (PARTITION BY id ORDER BY v) AS r FROM a QUALIFY r < 3 {MINUTE}",
    ],
    "union": [
        f"SELECT n, v FROM a {MINUTE} UNION ALL SELECT n, v FROM b {MINUTE}",
        f"SELECT n, ts FROM a WHERE v > 2 UNION ALL SELECT v, ts FROM a WHERE place <> 'south' {MINUTE}"
        " UNION ALL SELECT 7, ts FROM b BEGIN (LAST 4 ROWS)",
        f"SELECT a.n, b.n AS m, c.v FROM a, b, a c DWINDOW PATH(a, b, c) = 5 SECONDS BOTH WAYS WHERE a.id = b.id {MINUTE}",
        f"SELECT a.n, b.n AS m, b.ts AS t FROM a FULL JOIN b ON a.id = b.id AND b.v > 2 WINDOW(a, b) = 3 SECONDS {MINUTE}",
        f"SELECT a.n, b.n AS m FROM a FULL JOIN b ON a.id = b.id WINDOW(a, b) = 0 SECONDS {MINUTE}",
        f"SELECT id, n FROM a WHERE place = 'west' {MINUTE} UNION ALL SELECT id, n FROM b WHERE v > 2 FOR 5 SECONDS {MINUTE}",
    ],
    "union_aggregate": [
        f"SELECT id, COUNT(*) AS c, AVG(n) AS mean FROM (SELECT id, n FROM a WHERE v > 1 UNION ALL SELECT id, n FROM b) u GROUP BY id {MINUTE}",
        f"SELECT SUM(n) AS s, MAX(v) AS top FROM (SELECT n, v FROM a UNION ALL SELECT 3, v FROM a WHERE place <> 'west') u {MINUTE}",
        f"SELECT what, COUNT(DISTINCT n) AS c FROM (SELECT 'a' AS what, n FROM a UNION ALL SELECT 'b', n FROM b) u WHERE n > 1"
        f" GROUP BY what HAVING COUNT(*) > 2 {MINUTE}",
    ],
    "sparksql": [
        f"SELECT n, v FROM a {MINUTE} ORDER BY v DESC, n LIMIT 4",
        f"SELECT id, n, MAX(v) OVER (PARTITION BY id) AS top FROM a {MINUTE}",
        f"SELECT n, m FROM pairs WHERE n > m {MINUTE}",
    ],
}
