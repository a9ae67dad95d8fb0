"""Where the time between a push and its answer goes: `python -m bench.latency_stages`; results in bench/results/latency_stages.*

The server notes when rows are on disk, when the cycle that takes them was planned, began and ended, and when its answers were
published. The generator measures the push and the whole way. All figures are means, so that the stages add up; "delivery" is
what is left of the whole.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from bench.foundations import SENSORS, drain, generate, set_up, warm_up
from bench.report import Report
from bench.server import Server

SERVE = "--serve-into"
STAGES = ("wait", "spark", "job", "record", "fold")
"""From disk to planned, to the callback, to its results, to the commit record, to the answers."""


class TracedServer(Server):
    """A server that leaves its notes in a file when it stops."""

    def __init__(self, notes: Path) -> None:
        super().__init__()
        at = self._command.index("penstock")
        self._command[at : at + 1] = ["bench.latency_stages", SERVE, str(notes)]


def serve(notes: Path, arguments: list[str]) -> None:
    """`penstock` with these arguments, and notes of its hand-overs."""
    from penstock.cli.main import main as run
    from penstock.cycle.commits import CommitStore
    from penstock.pipeline.engine import Engine
    from penstock.streams.log.stream_log import StreamLog
    from penstock.views.feed import CommitFeed

    written: list[tuple[int, int, int]] = []
    cycles: dict[int, dict[str, Any]] = {}
    began_us = 0

    def on_disk(_: object, log: Any, table_id: int, *__: Any) -> None:
        written.append((_now_us(), table_id, log.head(table_id)))

    def begins(*_: Any) -> None:
        nonlocal began_us
        began_us = _now_us()

    def committed(record: Any, _store: Any, *_: Any) -> None:
        if record is not None:
            cycles[record.cycle] |= {"recorded": _now_us(), "planned": record.end.now_us, "data": record.end.data}

    def collected(store: Any, *_: Any) -> None:
        number = store.last.cycle + 1 if store.last is not None else 1
        cycles[number] = {"began": began_us, "collected": _now_us()}

    def folded(_: object, _feed: Any, mark: Any) -> None:
        cycles.setdefault(mark.cycle, {})["folded"] = _now_us()

    _watch(StreamLog, "_commit", after=on_disk)
    _watch(Engine, "_commit_cycle", before=begins)
    _watch(CommitStore, "write", before=collected, after=committed)
    _watch(CommitFeed, "append", after=folded)
    sys.argv = ["penstock", *arguments]
    try:
        run()
    finally:
        notes.write_text(json.dumps({"written": written, "cycles": cycles}))


def _now_us() -> int:
    return time.time_ns() // 1000


def _watch(
    owner: type, name: str, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None
) -> None:
    """Call `before` with the arguments of each call, `after` with its result and them."""
    method = getattr(owner, name)

    @wraps(method)
    def call(*arguments: Any, **named: Any) -> Any:
        if before is not None:
            before(*arguments)
        result = method(*arguments, **named)
        if after is not None:
            after(result, *arguments)
        return result

    setattr(owner, name, call)


def stages_ms(notes: dict[str, Any], from_us: int, to_us: int) -> dict[str, float]:
    """The mean of each stage over the segments that were written in a time, and the mean time between two cycles."""
    whole = [c for c in notes["cycles"].values() if {"planned", "began", "folded"} <= c.keys()]
    cycles = sorted(whole, key=lambda c: c["began"])
    found: dict[str, list[float]] = {stage: [] for stage in STAGES}
    for at_us, table_id, head in notes["written"]:
        taken = next((c for c in cycles if c["data"].get(str(table_id), 0) >= head), None)
        if from_us <= at_us < to_us and taken is not None:
            moments = [at_us, *(taken[m] for m in ("planned", "began", "collected", "recorded", "folded"))]
            for stage, first, last in zip(STAGES, moments, moments[1:], strict=False):
                found[stage].append((last - first) / 1000)
    begins = [c["began"] for c in cycles if from_us <= c["began"] < to_us]
    period = (begins[-1] - begins[0]) / max(1, len(begins) - 1) / 1000
    return {**{stage: statistics.fmean(times) for stage, times in found.items()}, "period": period}


def measure(report: Report, rate: int, seconds: float) -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-stages-") as folder:
        notes = Path(folder) / "notes.json"
        with TracedServer(notes) as server:
            set_up(server, 1)
            warm_up(server)
            from_us = _now_us()
            found = generate(
                do="hold_rate", url=server.url, table="readings", query="markers", rate=rate, seconds=seconds,
                interval_s=0.05, sensors=SENSORS, seed=rate // 1000, connections=2,
            )  # fmt: skip
            to_us = _now_us()
            drain(server)
        times = stages_ms(json.loads(notes.read_text()), from_us, to_us)
    times["push"], times["visible"] = found["push_mean_ms"], found["mean_ms"]
    times["delivery"] = times["visible"] - times["push"] - sum(times[stage] for stage in STAGES)
    for name in ("push", *STAGES, "delivery", "visible", "period"):
        report.put(f"{name}_ms", times[name])
    report.put("visible_p50_ms", found["p50_ms"])
    report.put("visible_p99_ms", found["p99_ms"])


def main() -> None:
    if sys.argv[1:2] == [SERVE]:
        serve(Path(sys.argv[2]), sys.argv[3:])
        return
    parser = argparse.ArgumentParser(prog="python -m bench.latency_stages", description=__doc__)
    parser.add_argument("--rate", type=int, default=60_000, help="rows per second")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    report = Report("latency_stages", f"{options.rate} rows/s for {options.seconds:g} s")
    measure(report, options.rate, options.seconds)
    report.show()


if __name__ == "__main__":
    main()
