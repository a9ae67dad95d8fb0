"""The join that engines are compared on: every engine gets the same times, and one with other results has no figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from bench import join_workload as workload
from bench.joins_peers import ORIGIN_US, put_peer, write_files
from bench.report import Report


def test_the_files_of_all_engines_have_the_same_rows_at_whole_milliseconds(tmp_path: Path) -> None:
    write_files(tmp_path, 1)
    parquet = pa.parquet.read_table(tmp_path / "parquet" / "00000.parquet")
    pushed = [pa.ipc.open_stream(body).read_all() for _, body in workload.bodies(ORIGIN_US, 1)]
    names = pa.csv.ReadOptions(column_names=["us", "k", "v"])
    for number, ours in enumerate(pushed):
        csv = pa.csv.read_csv(tmp_path / "csv" / str(number) / "rows.csv", names)
        spark = parquet.filter(pa.compute.equal(parquet["stream"], number))
        us = csv["us"].to_numpy()
        assert len(us) and us[0] >= ORIGIN_US and not (us % 1000).any()
        for table in (spark, ours):
            assert np.array_equal(table["ts"].cast(pa.int64()).to_numpy(), us)
            assert table["k"].equals(csv["k"]) and table["v"].equals(csv["v"])


def test_the_expected_results_of_a_second_are_all_combinations_of_equal_keys() -> None:
    (stream, _, keys, _) = next(workload.seconds(1))
    counts = [np.bincount(keys[stream == number], minlength=workload.KEYS) for number in range(workload.STREAMS)]
    assert workload.expected(1) == int(np.prod(counts, axis=0).sum()) > 0


@pytest.mark.parametrize(("results", "rate"), [(7, 50.0), (8, None)])
def test_an_engine_with_other_results_has_no_figures(results: int, rate: float | None) -> None:
    report, rates = Report("joins_test", "no run"), {}
    put_peer(report, rates, "flink", {"seconds": 2.0, "cpu_s": 1.0, "peak_mb": 5.0, "results": results}, 100, 7)
    assert rates == ({} if rate is None else {"flink": rate})
    assert report.values["flink_results"] == results and report.values["flink_rows_per_s"] == rate
    assert (report.values["flink_peak_memory_mb"] is None) == (rate is None)
