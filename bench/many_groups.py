"""What a million groups cost: `python -m bench.many_groups`, in one process and without Spark.

Each cycle brings the readings of one second. Measured are the fold of its cells, the whole answer, the difference between the answers of
two cycles as a subscriber gets it, and one page of the answer, with and without its JSON.
Results: bench/results/many_groups.{json,md}.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from bench.local_database import local_database
from bench.report import Report
from penstock.clock import SECOND
from penstock.operators.base.table_answer import TableAnswer
from penstock.server.http.decode import JSON
from penstock.server.http.encode import encode_result
from tests.support.manual_clock import ManualClock

GROUPS, ROWS, CYCLES, ANSWERS = 1_000_000, 60_000, 60, 5
BEGAN_US = 1_763_190_000_000_000
PAGE = 1_000
QUERY = "SELECT k, COUNT(*) AS n, SUM(x) AS total FROM t GROUP BY k BEGIN (NOW - 10 MINUTES) END (NOW)"


class Stopwatch:
    """Milliseconds of each call of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.ms: list[float] = []

    def __call__(self, *arguments: Any) -> Any:
        began = time.perf_counter()
        found = self._function(*arguments)
        self.ms.append((time.perf_counter() - began) * 1000)
        return found


def readings(chance: np.random.Generator, keys: np.ndarray, began_us: int, texts: bool) -> pa.Table:
    times = began_us + np.sort(chance.integers(0, SECOND, len(keys)))
    column = pa.array(keys)
    return pa.table(
        {
            "id": pa.array(np.ones(len(keys), np.int32)),
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "k": column.cast(pa.string()) if texts else column,
            "x": pa.array(chance.random(len(keys))),
        }
    )


def run(report: Report, groups: int, rows: int, cycles: int, texts: bool) -> None:
    chance, clock = np.random.default_rng(16), ManualClock(BEGAN_US)
    settings = {"slices_memory_mb": 4096, "result_max_rows": 2 * groups}
    with local_database(clock, **settings) as (database, engine):
        database.execute(
            f"CREATE TABLE t (id INT PRIMARY KEY, r STREAM (k {'TEXT' if texts else 'BIGINT'}, x DOUBLE)) WITH (time = 'valid')"
        )
        database.execute("INSERT INTO t VALUES (1, NULL)")
        database.execute(f"CREATE QUERY many AS {QUERY}")
        engine.drain()
        slices = database.standing.store.slices
        (family,) = slices.families.values()
        fold = slices.fold = Stopwatch(slices.fold)  # type: ignore[method-assign, assignment]
        folds: list[float] = []  # of whole cycles: a record has the cells of each task

        def second(keys: np.ndarray) -> TableAnswer:
            database.push("t", readings(chance, keys, clock.now_us(), texts))
            clock.advance(SECOND)
            fold.ms.clear()
            engine.cycle()
            folds.append(sum(fold.ms))
            held = database.standing.held("many")
            assert isinstance(held, TableAnswer)
            return held

        order = chance.permutation(groups)
        for begin in range(0, groups, rows):  # every group once
            second(order[begin : begin + rows])
        filled = folds.copy()
        folds.clear()
        for _ in range(cycles):
            second(chance.integers(0, groups, rows))
        report.put("groups", len(family.groups))
        report.put("fold_new_groups_p99_ms", np.percentile(filled, 99))
        report.put("groups_1e6_fold_p50_ms", np.percentile(folds, 50))
        report.put("groups_1e6_fold_p99_ms", np.percentile(folds, 99))
        report.values["groups_1e6_fold_ms_runs"] = [round(ms, 2) for ms in folds]
        before = second(chance.integers(0, groups, rows))
        before.answer()
        answer, difference, changed = Stopwatch(lambda held: held.answer()), Stopwatch(_changes), 0
        page, encoded = Stopwatch(database.invoke), Stopwatch(encode_result)
        for _ in range(ANSWERS):
            held = second(chance.integers(0, groups, rows))
            answer(held)
            changed += difference(held, before)
            found = page("many", held.cycle, PAGE, groups // 2)
            assert found.table.num_rows == PAGE
            encoded(found, JSON)
            before = held
        report.put("rows_changed", changed / ANSWERS)
        for name, watch in (("answer", answer), ("difference", difference), ("page", page), ("page_json", encoded)):
            report.put_runs(f"{name}_ms", watch.ms)
        # After answers, because these keep something, too.
        report.put("bytes_per_group", family.groups.nbytes / len(family.groups))
        report.put("cells_mb", (family.nbytes - family.groups.nbytes) / 1e6)
        report.put("bytes_per_cell", (family.nbytes - family.groups.nbytes) / (groups + (cycles + 1 + ANSWERS) * rows))


def _changes(held: TableAnswer, before: TableAnswer) -> int:
    _, entered, left = held.changed(before, before.inside())
    return len(entered) + left.num_rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.many_groups", description=__doc__)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--rows", type=int, default=ROWS, help="readings per cycle")
    parser.add_argument("--cycles", type=int, default=CYCLES, help="that are measured, after one reading of each group")
    parser.add_argument("--texts", action="store_true", help="with keys that are texts")
    options = parser.parse_args()
    keys = "texts" if options.texts else "whole numbers"
    title = f"{options.groups} groups by {keys}, {options.rows} readings in each of {options.cycles} cycles"
    report = Report("many_groups_texts" if options.texts else "many_groups", title)
    run(report, options.groups, options.rows, options.cycles, options.texts)
    report.values["command"] = (
        f"python -m bench.many_groups --groups {options.groups} --rows {options.rows} --cycles {options.cycles}"
        + (" --texts" if options.texts else "")
    )
    print(f"results: bench/results/{report.save().name}")


if __name__ == "__main__":
    main()
