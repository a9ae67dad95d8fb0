"""Spark's own join and Flink SQL on the same workload in the same run, each in a process of its own, counted and timed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from bench import join_workload as workload
from bench.peer_environments import PEERS, install
from bench.report import Report
from penstock.pipeline.jvm import find_java

HERE = Path(__file__).parent
FLINK = "apache-flink>=2.2,<2.3"
FLINK_HOME = PEERS / "flink"
MOST_S = 1800
ORIGIN_US = 1_700_000_000_000_000
"""When the workload begins. Not in 1970: Spark's watermark is there before the first row, and takes rows of that moment for late."""


def measure_peers(report: Report, seconds: int, warm_seconds: int) -> dict[str, float]:
    """Rows/s by peer; a peer that cannot run, or that finds other results, is missing, and said."""
    wanted = workload.expected(seconds)
    rows = seconds * workload.PER_SECOND
    rates: dict[str, float] = {}
    flink = install_flink(report)
    with tempfile.TemporaryDirectory(prefix="penstock-peers-") as temporary:
        folder = Path(temporary)
        report.say(f"peers: writing {rows:,} rows as Parquet and CSV")
        write_files(folder / "all", seconds)
        write_files(folder / "warm", min(seconds, warm_seconds))
        for store in ("memory", "rocksdb"):
            script = [sys.executable, str(HERE / "peers" / "spark_join.py")]
            command = [*script, str(folder / "all/parquet"), str(folder / "warm/parquet"), store]
            found = run_peer(report, f"spark_{store}", command)
            put_peer(report, rates, f"spark_{store}", found, rows, wanted)
        if flink is not None:
            command = [str(flink), str(HERE / "peers" / "flink_join.py"), str(folder / "all/csv")]
            put_peer(report, rates, "flink", run_peer(report, "flink", command), rows, wanted)
    return rates


def put_peer(
    report: Report, rates: dict[str, float], name: str, found: dict[str, Any] | None, rows: int, wanted: int
) -> None:
    """A peer with other results did other work: it has no figures."""
    if found is None:
        return
    report.put(f"{name}_results", found["results"])
    right = found["results"] == wanted
    if right:
        rates[name] = rows / found["seconds"]
    else:
        report.say(f"[bold red]{name} DOES NOT COUNT: {found['results']} results, {wanted} are right")
    report.put(f"{name}_rows_per_s", rates.get(name), rows)
    report.put(f"{name}_cpu_s_per_million_rows", found["cpu_s"] / rows * 1e6 if right else None)
    report.put(f"{name}_peak_memory_mb", found["peak_mb"] if right else None)


def write_files(folder: Path, seconds: int) -> None:
    """A Parquet file per second for Spark, a CSV file per stream for Flink."""
    (folder / "parquet").mkdir(parents=True)
    parts = []
    for second, (stream, us, k, v) in enumerate(workload.seconds(seconds)):
        ts = pa.array(us + ORIGIN_US, pa.timestamp("us", tz="UTC"))
        table = pa.table({"stream": stream, "ts": ts, "k": k, "v": v})
        pa.parquet.write_table(table, folder / "parquet" / f"{second:05d}.parquet")
        parts.append((stream, us + ORIGIN_US, k, v))
    stream, us, k, v = (np.concatenate(column) for column in zip(*parts, strict=True))
    for number in range(workload.STREAMS):
        mine = stream == number
        (folder / "csv" / str(number)).mkdir(parents=True)
        table = pa.table({"us": us[mine], "k": k[mine], "v": v[mine]})
        bare = pa.csv.WriteOptions(include_header=False)
        pa.csv.write_csv(table, folder / "csv" / str(number) / "rows.csv", bare)


def install_flink(report: Report) -> Path | None:
    return install(report, "Flink", FLINK_HOME, [FLINK], "pyflink.table", "some minutes and 700 MB")


def run_peer(report: Report, name: str, command: list[str]) -> dict[str, Any] | None:
    """What the script says at its end, with processor time and peak memory of its processes since its beginning."""
    report.say(f"peers: {name}")
    environment = {**os.environ, "JAVA_HOME": str(find_java()), "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as peer:
            found = _Watch(peer).until_end()
        if found is None:
            errors.seek(0)
            report.say(f"[bold red]{name.upper()} IS LEFT OUT: it failed.[/bold red]\n{errors.read()[-1500:]}")
    return found


class _Watch:
    """Follows a peer's lines and samples its memory beside."""

    def __init__(self, peer: subprocess.Popen[str]) -> None:
        self._peer = peer
        self._tree = psutil.Process(peer.pid)
        self._peak = 0.0
        self._stop = threading.Event()

    def until_end(self) -> dict[str, Any] | None:
        sampler = threading.Thread(target=self._sample, daemon=True)
        sampler.start()
        cpu, found = 0.0, None
        try:
            assert self._peer.stdout is not None
            for line in self._peer.stdout:
                event = json.loads(line) if line.startswith("{") else {}
                if event.get("event") == "begin":
                    cpu, self._peak = self._cpu_seconds(), 0.0
                elif event.get("event") == "end":
                    found = {**event, "cpu_s": self._cpu_seconds() - cpu, "peak_mb": self._peak}
        finally:
            self._stop.set()
            sampler.join()
        return found

    def _sample(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(0.5):
            self._peak = max(self._peak, sum(self._each(lambda p: p.memory_info().rss)) / 2**20)
            if time.monotonic() - began > MOST_S:
                for process in self._processes():
                    process.kill()
                return

    def _cpu_seconds(self) -> float:
        return sum(self._each(lambda p: sum(p.cpu_times()[:2])))

    def _processes(self) -> list[psutil.Process]:
        try:
            return [self._tree, *self._tree.children(recursive=True)]
        except psutil.Error:
            return []

    def _each(self, read: Any) -> list[float]:
        values = []
        for process in self._processes():
            try:
                values.append(float(read(process)))
            except psutil.Error:
                continue
        return values
