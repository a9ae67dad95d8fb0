"""For every test: who runs where, and, last thing before the closing line, loudly, which were left out and why."""

from __future__ import annotations

import gc
import os
import shutil
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import hypothesis
import hypothesis.internal.conjecture.engine
import pytest

from tests.support.examples import FAST, FAST_EXAMPLES

pytest_plugins = ["tests.support.pipe_fixtures", "tests.support.service_fixtures"]

# How long an example takes to make or to run says something about the machine, and nothing about what is tested.
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("fast", hypothesis.settings.get_profile("any machine"), max_examples=FAST_EXAMPLES)
hypothesis.settings.load_profile("fast" if FAST else "any machine")
# A property that fails shows its example before the limit of a test (300 s) ends it without a word of it.
hypothesis.internal.conjecture.engine.MAX_SHRINKING_SECONDS = 60
# Stories of several tests on one server: each goes on where the one before it stopped.
STORIES = ("tests/browser/",)
WITH_SPARK = ("tests/cluster/", "tests/kill/", "tests/live/", "tests/spark/")
# Some of these take many seconds. They are dealt last and one by one, so that the processes end together.
LONG = (
    "tests/answers/",
    "tests/crash/",
    "tests/cycle/",
    "tests/database/",
    "tests/operators/",
    "tests/oracle/",
    "tests/pipeline/",
    "tests/statements/",
    "tests/views/",
)
# What `make test-fast` leaves out: a JVM, a browser, processes that are killed, servers in a process of their own, stories
# that take many seconds, and code that only benchmarks run.
NOT_FAST = (
    *WITH_SPARK,
    *STORIES,
    "tests/bad_input/",
    "tests/bench/",
    "tests/crash/",
    "tests/cycle/test_damaged_journal.py",
    "tests/database/test_flipped_bytes.py",
    "tests/database/test_quarantine.py",
    "tests/hazmat/test_application.py",
    "tests/hazmat/test_measure.py",
    "tests/operators/aggregate/approximate/test_queries.py",
    "tests/operators/aggregate/approximate/test_within_queries.py",
    "tests/operators/aggregate/test_correlated_groups.py",
    "tests/operators/aggregate/test_internal_consistency.py",
    "tests/operators/aggregate/test_real_series.py",
    "tests/operators/aggregate/test_year_by_duckdb.py",
    "tests/operators/join/steps/test_join_sharing.py",
    "tests/operators/join/test_readers_restart.py",
    "tests/operators/join/test_result_files.py",
    "tests/operators/mining/test_every_function.py",
    "tests/operators/mining/test_exactly_once.py",
    "tests/operators/mining/test_going_on.py",
    "tests/operators/select/test_hold.py",
    "tests/oracle/",
    "tests/pipeline/test_kernel_warmup.py",
    "tests/project/test_bench_",
    "tests/project/test_cameras_followed.py",
    "tests/security/test_bombs.py",
    "tests/security/test_code_workers.py",
    "tests/security/test_functions.py",
    "tests/security/test_fuzzed.py",
    "tests/security/test_injection.py",
    "tests/security/test_slow_readers.py",
    "tests/security/test_statement_limits.py",
    "tests/sensors/test_mqtt_delivery.py",
    "tests/server/test_run.py",
    "tests/sinks/test_mining.py",
    "tests/streams/log/test_crash.py",
    "tests/test_services.py",
    "tests/views/test_bounded_soak.py",
    "tests/views/test_isolation.py",
    "tests/views/test_many_queries.py",
)
# One of these waits for half a minute: with many others in one bunch it is not dealt last.
TOGETHER = ("tests/project/", "tests/test_docs")
POLITE = 19
# Where Linux keeps files in memory; what all tests leave at a time is far less than this room.
IN_MEMORY = Path("/dev/shm")
ROOM_BYTES = 4 << 30


def pytest_configure(config: pytest.Config) -> None:
    """Databases of tests sync thousands of small files, and none has to outlive the machine.

    Their JVMs live for seconds: the second compiler would take more of the processor than it saves (9.8 against 6.2 s for
    a server that starts and stops). Without it a JVM keeps only 48 MB of compiled code, throws some of it away when that is
    full, and compiles it again.
    """
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
    # Threads of the matrix library wait for each other in busy loops: with them tests of hazmat take twice the processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > ROOM_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """What a fast run leaves out is not even imported."""
    if not FAST:
        return None
    place = (
        collection_path.relative_to(config.rootpath).as_posix()
        if collection_path.is_relative_to(config.rootpath)
        else ""
    )
    return True if f"{place}/".startswith(NOT_FAST) or place.startswith(NOT_FAST) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and tests stay until the end, so the collector of garbage never has to look at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests with Spark stay in one process, while the others run beside them: a cycle mostly waits.

    A file's tests stay together, with the servers that they share; the largest files come first.
    """
    from xdist.scheduler import LoadScopeScheduling

    class OneForSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(WITH_SPARK):
                return "spark"
            if nodeid.startswith(TOGETHER):
                return "together"
            return nodeid if nodeid.startswith(LONG) else nodeid.partition("::")[0]

    return OneForSpark(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Whoever came last with Spark would be waited for: its processes go first, the others take what they leave.

    But for a browser, whose pages would stand still for many seconds.
    """
    in_a_hurry = item.nodeid.startswith((*WITH_SPARK, *STORIES))
    if "PYTEST_XDIST_WORKER" in os.environ and not in_a_hurry and os.nice(0) < POLITE:
        os.nice(POLITE - os.nice(0))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out: Counter[tuple[str, str]] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        left_out[(Path(report.nodeid.partition("::")[0]).as_posix(), reason.removeprefix("Skipped: "))] += 1
    if not left_out:
        return
    terminalreporter.section("LEFT OUT", sep="!", red=True, bold=True)
    for (file, reason), count in sorted(left_out.items()):
        terminalreporter.line(f"{count} in {file}: {reason}", yellow=True)
