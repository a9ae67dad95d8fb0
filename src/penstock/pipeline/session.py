"""Start Spark with the settings that matter, and stop it (docs/decisions/0003-spark-settings.md).

Its function registry is without what reaches outside of a question: files, the JVM, the session, descriptors. The binder lets
only listed functions through (`penstock.sql.functions`); this is a second layer of defence. For regular expressions the session
has functions of ours: those of Java backtrack, and no task can be interrupted in one. They run in Python workers of statements
(docs/decisions/0027-regular-expressions.md). The planner writes their names; no statement can call them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

import penstock
from penstock.errors import error
from penstock.functions.regular_expressions import FUNCTIONS, SPARK_PREFIX, call_text_function
from penstock.pipeline.jobs import local_cores, pool_settings, register_function, slots
from penstock.pipeline.jvm import java_settings, launch_java, link_home, security_settings
from penstock.settings import Settings

_log = logging.getLogger("penstock.pipeline")
STOP_S = 60.0

_LOCAL = {
    # On this machine no other host needs to reach the driver; executors elsewhere do.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Hadoop's checksummed local file system forks a process per permission change without its native library;
    # the raw one with a plain rename is safe for the one writer of a local checkpoint.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


def _executor_settings(master: str) -> dict[str, str]:
    """What executors need when they are processes of their own: our packages, this interpreter, their memory."""
    packages = str(Path(penstock.__file__).parents[1])
    known = os.environ.get("PYTHONPATH")
    conf = {
        "spark.pyspark.python": sys.executable,
        "spark.executorEnv.PYTHONPATH": f"{packages}{os.pathsep}{known}" if known else packages,
        "spark.executorEnv.PYTHONHASHSEED": "0",
    }
    cluster = re.fullmatch(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*(\d+)\s*\]", master)
    if cluster:
        conf["spark.executor.memory"] = f"{cluster.group(1)}m"
    return conf


def start_session(settings: Settings, scratch: Path, train: Path | None = None) -> SparkSession:
    """The one Spark session of this process, without `REMOVED`; `register_functions` adds ours.

    `scratch` is where Spark keeps what it may lose. With `train` its JVM writes a class archive there when it ends (see `jvm`).
    """
    scratch.mkdir(parents=True, exist_ok=True)
    if settings.spark_master.startswith("local-cluster"):
        os.environ["SPARK_HOME"] = str(link_home(scratch / "home"))
    master = settings.spark_master
    cores = local_cores(master) if re.fullmatch(r"local(?:\[([^,\]]+)\])?", master) else None
    if cores is not None:
        # local[N] never retries a task, so one dead worker would fail the query: ask for four tries. It gets slots for
        # statements beside those of its N processors (see `jobs`).
        master = f"local[{slots(cores, settings.statements_max)},4]"
    builder = SparkSession.Builder().master(master).appName("penstock")
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **java_settings(settings, train),
        **pool_settings(settings, scratch),
        "spark.local.dir": str(scratch),
        # Hadoop gives files the modes of a umask of its own.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "false",
        # No statement names a file as its table.
        "spark.sql.runSQLOnFiles": "false",
        # Texts are taken literally: ${...} is not replaced, and a backslash escapes in literals.
        "spark.sql.variable.substitute": "false",
        "spark.sql.parser.escapedStringLiterals": "false",
        "spark.sql.adaptive.enabled": "true",
        # A cycle's plan has nothing to adapt.
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A batch for a worker has at most so many bytes, whatever texts a statement makes.
        "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
        # The planner waits for readings itself (`Planner.await_latest`).
        "spark.sql.streaming.pollingDelay": "1ms",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.python.worker.reuse": "true",
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "5",
        "spark.worker.cleanup.enabled": "true",
        "spark.log.level": "ERROR",
    }
    if cores is not None:
        # Spark takes turns among all idle workers of a pool, and each one of cycles keeps an index of all selections.
        conf["spark.python.factory.idleWorkerMaxPoolSize"] = str(cores)
    if not settings.spark_master.startswith("local["):
        conf.update(_executor_settings(settings.spark_master))
    if settings.spark_master.startswith("local"):
        conf.update({**_LOCAL, **_socket_settings(scratch)})
    # A JVM gets its settings as arguments, which other accounts see: it gets the secret after its start.
    launch_java(conf)
    for name, value in {**conf, **security_settings(settings)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    remove_functions(session)
    return session


SOCKET_NAME_BYTES = 44
"""What Spark adds to the path of a socket's folder."""
_SOCKET_PATH_BYTES = 107  # of Linux


def _socket_settings(scratch: Path) -> dict[str, str]:
    """Unix sockets between the JVM and its Python workers: over TCP every task waits 40 ms for a delayed acknowledgement.

    Their folder is private and has a short name, outside of `scratch`. The name follows from `scratch`: so a start removes the
    folder of a server that was killed. Without such a folder Spark uses TCP.
    """
    folder = remove_sockets(scratch)
    if len(os.fsencode(folder)) + SOCKET_NAME_BYTES > _SOCKET_PATH_BYTES:
        return {}
    try:
        folder.mkdir(mode=0o700)
    except OSError:  # of another user
        return {}
    return {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.python.unix.domain.socket.dir": str(folder),
    }


def remove_sockets(scratch: Path) -> Path:
    """Remove the folder of sockets of a server that has ended; where it was."""
    digest = hashlib.sha256(os.fsencode(scratch.resolve())).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"penstock-sockets-{digest}"
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def stop_session(spark: SparkSession | None) -> None:
    """Stop Spark and its Java process, and wait for its end."""
    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    try:
        if spark is not None:
            spark.stop()
        if gateway is not None:
            gateway.shutdown()
    except Exception as gone:
        _log.debug("while stopping Spark: %s", gone)
    forget_session()
    if process is not None:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(timeout=STOP_S)
        except Exception:
            process.kill()


def forget_session() -> None:
    """Make PySpark start a new JVM next time; it has no public method for it."""
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
    if hasattr(SparkSession, "_activeSession"):
        SparkSession._activeSession = None


@dataclass(frozen=True, slots=True)
class SparkSessions:
    """How an engine starts a session of Spark, gives it the functions that statements call, and ends it."""

    start: Callable[[Settings, Path, Path | None], SparkSession] = start_session
    add_functions: Callable[[SparkSession], None] = lambda session: register_functions(session)
    stop: Callable[[SparkSession | None], None] = stop_session


REMOVED = (
    # any method of any class in the JVM
    *("reflect", "java_method", "try_reflect"),
    # names of files
    *("input_file_name", "input_file_block_start", "input_file_block_length"),
    # the session and the machine
    *("current_user", "user", "session_user", "current_catalog", "current_database", "current_schema", "current_path"),
    *("version", "spark_partition_id", "python_worker_logs"),
    # descriptor files, schema registries, and parsers of XML
    *("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf", "from_xml", "to_xml", "schema_of_xml"),
    *("xpath", "xpath_boolean", "xpath_double", "xpath_float", "xpath_int", "xpath_long", "xpath_number"),
    *("xpath_short", "xpath_string"),
    # errors of a user's making
    *("raise_error", "assert_true"),
)


def remove_functions(session: SparkSession) -> None:
    """Drop `REMOVED` from the session, and raise engine_failed if one of them is still there."""
    state: Any = session._jsparkSession.sessionState()
    for registry in (state.functionRegistry(), state.tableFunctionRegistry()):
        known = registry.listFunction()
        for place in _removable(known):
            registry.dropFunction(known.apply(place))
        left = registry.listFunction()
        if places := _removable(left):
            names = ", ".join(left.apply(place).toString() for place in places)
            raise error("engine_failed", detail=f"Spark still has the functions {names}")


def _removable(functions: Any) -> list[int]:
    """The places of `REMOVED` in a list of Spark's. Names have catalog and schema: `system.builtin.reflect`."""
    # As one text: a call per name would be some hundred calls.
    names = functions.mkString("\n").split("\n")
    return [place for place, name in enumerate(names) if name.rpartition(".")[2].lower() in REMOVED]


def register_functions(session: SparkSession) -> None:
    """Add the functions to the session, once. Statements need them, cycles do not."""
    for name, function in FUNCTIONS.items():
        register_function(session, SPARK_PREFIX + name, partial(_call, name), function.type)


def _call(name: str, *columns: pa.Array) -> pa.Array:
    return call_text_function(name, *(_valid(column) for column in columns))


def _valid(column: pa.Array) -> pa.Array:
    """The column with NULL instead of what is no UTF-8, which a BINARY may become by a CAST to TEXT in Spark."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        texts = (None if value is None else _decoded(value) for value in column.view(pa.binary()).to_pylist())
        return pa.array(texts, pa.string())
    return column


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
