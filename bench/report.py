"""What a benchmark found: printed, saved as flat JSON, as a table and as a plot."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
# Aims of the issue, for the column beside the figure: (comparison, value).
AIMS = {
    "push_to_visible_p50_ms_60k": ("<", 100),
    "push_to_visible_p99_ms_60k": ("<", 200),
    "python_task_floor_ms": ("<", 15),
    "idle_cpu_cores": ("<", 0.02),
    "sustained_tuples_per_s_1_query": (">", 800_000),
    "ingest_json_rows_per_s": (">", 50_000),
    "ingest_arrow_rows_per_s": (">", 1_000_000),
    "server_ready_s": ("<", 10),
    "start_s_empty": ("<", 4),
    "console_open_s": ("<", 2),
    "memory_slope_mb_per_min": ("<", 1),
    "files_per_table": ("<", 501),
    "files_per_table_sustained": ("<", 501),
    "ratio_flink": (">", 10),
    "ratio_spark_rocksdb": (">", 25),
    "theta_keeps_up": (">", 0),
    "silent_stream_slope_mb_per_min": ("<", 1),
    "cycle_p99_ms_10000_queries_100k": ("<", 1000),
    "backlog_cycles_10000_queries_100k": ("<", 2.001),
    "kb_per_query": ("<", 50),
    "register_1000_s": ("<", 5),
    "register_1000_cycles": ("<", 3),
    "invoke_http_p50_ms": ("<", 10),
    "invoke_process_p50_ms": ("<", 1),
    "churn_slope_mb_per_min": ("<", 1),
    "churn_errors": ("<", 1),
    "churn_answers_wrong": ("<", 1),
    "cycle_p99_ms_1000_aggregates_60k": ("<", 1000),
    "backlog_cycles_1000_aggregates_60k": ("<", 2.001),
    "errors_1000_aggregates_60k": ("<", 1),
    "answers_wrong_1000_aggregates_60k": ("<", 1),
    "ratio_spark_windows_100": (">", 10),
    "eh_worst_error_over_bound": ("<", 1.001),
    "rmse_min_piecemeal_uniform": ("<", 5),
    "rmse_avg_piecemeal_uniform": ("<", 30),
    "push_to_screen_p50_ms": ("<", 1000),
    "screen_keeps_up": (">", 0),
    "screen_backlog_cycles": ("<", 2.001),
    "mqtt_messages_per_s": (">", 10_000),
    "mqtt_lost": ("<", 1),
    "slow_reader_growth_mb": ("<", 10),
    "readers_rows_missing_with_slow": ("<", 1),
    "month_fetch_ms": ("<", 5),
    "month_fetch_http_ms": ("<", 20),
    "month_bytes_per_cell": ("<", 40.001),
    "month_wrong": ("<", 1),
    "live_cycle_p99_ratio_filling": ("<", 1.5),
    "sparse_failed": ("<", 1),
    "sparse_slices_mb": ("<", 20),
    "sparse_wrong": ("<", 1),
    "sensors10k_cells_mb": ("<", 1000),
    "sensors10k_cycle_p99_ms": ("<", 500),
    "sensors10k_wrong": ("<", 1),
    "sensors10k_wrong_after_restart": ("<", 1),
    "restart_to_answers_s": ("<", 30),
    "groups_1e6_fold_p99_ms": ("<", 1000),
    "followed_1000_cycle_p99_ms": ("<", 500),
    "followed_1000_invoke_p50_ms": ("<", 10),
    "followed_100_exact_cycle_p99_ms": ("<", 500),
    "selections_100k_cycle_p99_ms": ("<", 1000),
    "selections_100k_kb_per_query": ("<", 10),
    "selections_100k_register_s": ("<", 60),
    "selections_100k_restart_s": ("<", 30),
    "selections_100k_wrong": ("<", 1),
    "sustained_rows_per_s": (">", 800_000),
    "ours_rows_per_s": (">", 1_500_000),
    "false_alarm_share": ("<", 0.00101),
    "false_alarm_upper_95": ("<", 0.002),
    "missed_share": ("<", 0.0101),
    "mean_time_ratio_fixed": ("<", 0.501),
    "named_right_share": (">", 0.97),
    "wrong_threat_share": ("<", 0.02),
    "other_detectors_right_share": (">", 0.9),
    "other_detectors_safe": ("<", 1),
    "left_out_safe_share": ("<", 0.0101),
    "mixture_both_named_share Co-60 + Cs-137": (">", 0.9),
    "prediction_median_error": ("<", 0.501),
    "burst_to_verdict_p50_ms": ("<", 1500),
    "nab_score_gaussian": (">", 75),
    "nab_score_robust": (">", 65),
    "period_found_share": (">", 0.9),
    "period_false_share": ("<", 0.0501),
    "change_points_found_share": (">", 0.9),
    "change_points_false_per_1000": ("<", 1.001),
    "change_points_same_as_ruptures": (">", 0.999),
    "change_points_ratio_ruptures": (">", 100),
    "change_points_ratio_ruptures_c": (">", 0.999),
    "forecast_sets_within_1.1": (">", 4.9),
    "forecast_coverage_least": (">", 0.9),
    "forecast_speed_ratio_autoets": (">", 50),
    "patterns_found_share": (">", 0.999),
    "patterns_always_true_not_planted": ("<", 1),
    "patterns_equal_pami": (">", 0.999),
    "clusters_ratio_sklearn": ("<", 1.0201),
    "sequences_found_share": (">", 0.999),
    "sequences_equal_prefixspan": (">", 0.999),
    "matches_equal_stumpy": (">", 0.999),
    "mining_cycle_p99_ms": ("<", 1000),
    "mining_push_p99_ms": ("<", 2000),
    "mining_kb_per_group": ("<", 50),
    "function_calls_saved": (">", 0.93999),
    "function_cycle_ratio_5us": (">", 5),
    "function_order_ratio": ("<", 1.15),
    "load_model_error": ("<", 0.25),
    "sessions_ratio_spark": (">", 10),
    "topk_ratio_spark": (">", 10),
    "union_ratio_spark": (">", 10),
    "alarm_delay_p99_ms_heavy": ("<", 1000),
    "alarm_delay_p99_ms_heavy_normal": ("<", 1000),
    "join_choice_worst_ratio": ("<", 1.1501),
    "join_choice_changing_ratio": ("<", 1.0),
}


class Report:
    """Collects measures by name."""

    def __init__(self, name: str, subtitle: str, keep: bool = False) -> None:
        """With `keep`, figures of an earlier run that this one does not measure stay in the file."""
        self.name = name
        self.subtitle = subtitle
        self.values: dict[str, Any] = {}
        self.runs: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, list[dict[str, Any]]] = {}
        self.rows = 0
        self._began = time.monotonic()
        self._console = Console(stderr=True)
        RESULTS.mkdir(exist_ok=True)
        earlier = RESULTS / f"{name}.json"
        if keep and earlier.exists():
            known = json.loads(earlier.read_text())
            self.runs, self.failures = known.pop("runs", {}), known.pop("failures", {})
            self.values = {n: v for n, v in known.items() if n not in ("commit", "seconds", "rows")}

    def say(self, text: str) -> None:
        self._console.print(f"[dim]{time.monotonic() - self._began:6.0f} s[/dim]  {text}")

    def put(self, name: str, value: float | None, rows: int = 0, digits: int = 3) -> None:
        self.values[name] = None if value is None else round(float(value), digits)
        self.rows += rows
        self.say(f"{name} = {self.values[name]}")

    def put_runs(
        self, name: str, found: Sequence[float | None], loads: Sequence[float] = (), digits: int = 3, **origin: Any
    ) -> None:
        """The median of all runs as the figure, and beside it every run, the load before it, and its origin: commit and command.

        Runs of the same origin that the file has already count, too. Those of another one stay in it as earlier ones.
        """
        known = self.runs.get(name, {})
        earlier = known.pop("earlier", [])
        if known and any(known.get(key) != value for key, value in origin.items()):
            known, earlier = {}, [*earlier, known]
        runs = [*known.get("runs", ()), *(None if value is None else round(float(value), digits) for value in found)]
        good = [value for value in runs if value is not None]
        self.put(name, statistics.median(good) if good else None, digits=digits)
        self.runs[name] = {"runs": runs, "load_before": [*known.get("load_before", ()), *loads], **origin}
        if earlier:
            self.runs[name]["earlier"] = earlier

    def put_failure(self, part: str, failure: Exception, load: float, **origin: Any) -> None:
        """A run of a part that ended with an error; the others go on."""
        self.say(f"[bold red]{part} failed:[/bold red] {failure}")
        told = {"error": f"{type(failure).__name__}: {failure}"[:2000], "load_before": load, **origin}
        self.failures.setdefault(part, []).append(told)

    def measure_parts(
        self,
        parts: Mapping[str, Callable[[], Mapping[str, float | Sequence[float | None] | None]]],
        runs: int,
        module: str,
    ) -> list[str]:
        """Run each part so often, and save after each run; the parts of which a run failed: the others are measured all the same.

        A part may find several values of a figure: each counts as a run.
        """
        origin: dict[str, Any] = {"commit": commit_now(), "command": command_of(module)}
        failed = []
        for name, part in parts.items():
            for _ in range(runs):
                load = round(os.getloadavg()[0], 2)
                self.say(f"[bold]{name}")
                try:
                    found = part()
                except Exception as failure:
                    self.say(traceback.format_exc()[-2000:])
                    self.put_failure(name, failure, load, **origin)
                    failed.append(name)
                else:
                    for key, value in found.items():
                        several = value if isinstance(value, Sequence) else [value]
                        self.put_runs(key, several, [load] * len(several), **origin)
                self.save()
        return failed

    def save(self) -> Path:
        whole = {
            **self.values,
            **({"runs": self.runs} if self.runs else {}),
            **({"failures": self.failures} if self.failures else {}),
            "commit": commit_now(),
            "seconds": round(time.monotonic() - self._began, 1),
            "rows": self.rows,
        }
        path = RESULTS / f"{self.name}.json"
        path.write_text(json.dumps(whole, indent=1) + "\n")
        (RESULTS / f"{self.name}.md").write_text(self._markdown())
        return path

    def _markdown(self) -> str:
        lines = ["| measure | figure | aim |", "| --- | --- | --- |"]
        lines += [f"| {n} | {v} | {aim_of(n)} |" for n, v in self.values.items()]
        return "\n".join(lines) + "\n"

    def show(self) -> None:
        path = self.save()
        table = Table(title=f"{self.name}: {self.subtitle}")
        for column in ("measure", "figure", "aim", ""):
            table.add_column(column, justify="right" if column == "figure" else "left")
        for name, value in self.values.items():
            table.add_row(name, f"{value:,}" if value is not None else "-", aim_of(name), verdict(name, value))
        Console().print(table)
        self.plot_latencies()
        print(f"results: {path.relative_to(RESULTS.parent.parent)}")

    def plot_latencies(self) -> None:
        points = {n: v for n, v in self.values.items() if n.startswith("push_to_visible") and v is not None}
        if not points:
            return
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(figsize=(8, 4))
        axes.barh(list(points), list(points.values()))
        axes.set_xlabel("ms from push to visible answer")
        figure.tight_layout()
        figure.savefig(RESULTS / f"{self.name}.png", dpi=110)
        pyplot.close(figure)

    def plot_line(self, name: str, x: list[float], y: list[float]) -> None:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(figsize=(8, 3))
        axes.plot(x, y)
        axes.set_xlabel("minutes")
        axes.set_ylabel("MB, all processes")
        axes.set_ylim(bottom=0)
        figure.tight_layout()
        figure.savefig(RESULTS / f"{self.name}-{name}.png", dpi=110)
        pyplot.close(figure)


def commit_now() -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def command_of(module: str) -> str:
    """What started this run."""
    return " ".join(["python", "-m", module, *sys.argv[1:]])


def aim_of(name: str) -> str:
    aim = AIMS.get(name)
    return f"{aim[0]} {aim[1]:,}" if aim else ""


def verdict(name: str, value: float | None) -> str:
    aim = AIMS.get(name)
    if aim is None or value is None:
        return ""
    good = value < aim[1] if aim[0] == "<" else value > aim[1]
    return "reached" if good else "missed"
