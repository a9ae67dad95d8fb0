"""One DuckDB query per invocation, over the same readings and windows. `python duckdb_selections.py TASK.json`

Runs in an environment with duckdb and pyarrow. The readings are a table of its own, in the order of their times.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import duckdb


def say(**event: Any) -> None:
    print(json.dumps(event), flush=True)


def statement(query: dict[str, Any]) -> str:
    return (
        f"SELECT sensor_id, a, b, c, d FROM readings WHERE us BETWEEN {query['low']} AND {query['high']}"
        f" AND {query['where']}"
    )


def rows(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    """The answer as an Arrow table, as ours is."""
    found = connection.execute(sql)
    table = found.to_arrow_table() if hasattr(found, "to_arrow_table") else found.fetch_arrow_table()
    return int(table.num_rows)


def main(path: str) -> None:
    task = json.loads(Path(path).read_text())
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE readings AS SELECT * FROM read_parquet('{task['file']}')")
    statements = [statement(query) for query in task["queries"]]
    results = sum(rows(connection, sql) for sql in statements)
    say(event="begin")
    spent = []
    for turn in range(task["times"]):
        sql = statements[turn % len(statements)]
        began = time.perf_counter()
        rows(connection, sql)
        spent.append((time.perf_counter() - began) * 1000)
    say(event="end", results=results, ms=sorted(spent), version=duckdb.__version__)


if __name__ == "__main__":
    main(sys.argv[1])
