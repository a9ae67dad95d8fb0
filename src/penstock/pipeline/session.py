"""Start Spark with the settings that matter (docs/decisions/0003-spark-settings.md)."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from penstock.pipeline.cluster_security import security_settings
from penstock.pipeline.jobs import local_cores, pool_settings, slots
from penstock.pipeline.jvm import java_settings, launch_java
from penstock.pipeline.registry import remove_functions
from penstock.pipeline.spark_home import link_home
from penstock.pipeline.text_functions import register_functions
from penstock.settings import Settings

# Hadoop's checksummed local file system forks a process per permission change without its native library;
# the raw one with a plain rename is safe for the one writer of a local checkpoint.
_LOCAL_DISK = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


# On this machine no other host needs to reach the driver; executors elsewhere do.
_LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def retrying_master(master: str, statements_max: int = 0) -> str:
    """local[N] never retries a task, so one dead worker would fail the query: ask for four tries.

    It gets slots for statements beside those of its N processors (see `jobs`).
    """
    cores = local_cores(master) if re.fullmatch(r"local(?:\[([^,\]]+)\])?", master) else None
    return master if cores is None else f"local[{slots(cores, statements_max)},4]"


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
    """The one Spark session of this process. `scratch` is where Spark keeps what it may lose.

    With `train` its JVM writes a class archive there when it ends (see `archive`).
    """
    scratch.mkdir(parents=True, exist_ok=True)
    if settings.spark_master.startswith("local-cluster"):
        os.environ["SPARK_HOME"] = str(link_home(scratch / "home"))
    master = retrying_master(settings.spark_master, settings.statements_max)
    builder = SparkSession.Builder().master(master).appName("penstock")
    conf = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **java_settings(settings, train),
        **(_LOOPBACK if settings.spark_master.startswith("local") else {}),
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
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A batch for a worker has at most so many bytes, whatever texts a statement makes.
        "spark.sql.execution.arrow.maxBytesPerBatch": "16777216",
        "spark.sql.streaming.pollingDelay": "20ms",
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
    if not settings.spark_master.startswith("local["):
        conf.update(_executor_settings(settings.spark_master))
    if settings.spark_master.startswith("local"):
        conf.update(_LOCAL_DISK)
    # A JVM gets its settings as arguments, which other accounts see: it gets the secret after its start.
    launch_java(conf)
    for name, value in {**conf, **security_settings(settings)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    remove_functions(session)
    register_functions(session)
    return session
