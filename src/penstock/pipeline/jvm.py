"""Start Spark's JVM, early: it takes as long to come up as the server takes to load its own code.

The JVM and the Python workers that it starts get the environment that they need, and no secrets. The server's own environment may hold a token, a database's address or a cloud's keys. Code that a question runs never
needs them, so the JVM is started without them, and its workers inherit from it.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway

from penstock.pipeline.java import find_java, spark_home, train_archive, use_archive
from penstock.settings import Settings

KEPT = frozenset(
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TMPDIR TEMP TMP VIRTUAL_ENV LD_LIBRARY_PATH MALLOC_ARENA_MAX "
    "XDG_CACHE_HOME YARN_CONF_DIR".split()
)
KEPT_PREFIXES = ("LC_", "JAVA_", "SPARK_", "_SPARK_", "PYSPARK_", "_PYSPARK_", "PYTHON", "NUMBA_", "HADOOP_")
_SECRET_WORDS = ("SECRET", "TOKEN", "PASSWORD", "PASSWD", "CREDENTIAL")


def worker_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that the JVM and its workers get."""
    return {name: value for name, value in environ.items() if _is_kept(name)}


def _is_kept(name: str) -> bool:
    if any(word in name.upper() for word in _SECRET_WORDS):
        return False
    return name in KEPT or name.startswith(KEPT_PREFIXES)


class PopenOptions(dict[str, object]):
    """Options of the JVM's process for `launch_gateway`, which sets `env` to a copy of the server's: that is cut."""

    def __setitem__(self, name: str, value: object) -> None:
        super().__setitem__(name, worker_environment(value) if name == "env" else value)  # type: ignore[arg-type]


# Memory that is there from the beginning, and given back when the compiler is done with it: what grows by and by looks
# like a leak, and may hide one.
_MEMORY = (
    "-Xss16m -XX:+UseSerialGC -Xms384m -Xmn160m -XX:+AlwaysPreTouch -XX:InitialCodeCacheSize=48m"
    " -XX:TrimNativeHeapInterval=10000"
)
# What a cycle runs in the JVM is called some hundred times and moves no data: compiling that as if it were hot took more of
# the processor than running it. Loops over data in one-shot questions still get there within their first second.
_COMPILER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000"
    " -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
# Spark greets with warnings that no user can act upon.
_QUIET_LOG = Path(__file__).parent / "log4j2.properties"


def java_settings(settings: Settings, train: Path | None = None) -> dict[str, str]:
    """The JVM's settings at its start; sets the environment that it and its workers inherit.

    With `train` it writes a class archive there when it ends (see `java`).
    """
    java_home = find_java()
    os.environ["JAVA_HOME"] = str(java_home)
    # Otherwise every thread of the JVM gets a heap of its own from the C library, and keeps it.
    os.environ.setdefault("MALLOC_ARENA_MAX", "2")
    # Workers must be this interpreter: whatever `python3` is on PATH lacks our packages.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Spark looks for data sources among all installed packages with the driver's interpreter, if there is one. We have
    # ours registered by hand, and workers use PYSPARK_PYTHON.
    os.environ["PYSPARK_DRIVER_PYTHON"] = "no-data-sources-to-look-up"
    if settings.spark_master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    home = spark_home()
    if home is not None:
        os.environ.setdefault("SPARK_HOME", str(home))
    classes = use_archive(java_home) if train is None else train_archive(train)
    return {
        "spark.driver.memory": settings.spark_memory,
        "spark.driver.extraJavaOptions": f"{_MEMORY} {_COMPILER} -Dlog4j2.configurationFile={_QUIET_LOG.as_uri()} {classes}",
    }


def launch_java_early(settings: Settings) -> None:
    """Start the JVM in the background. A session that comes before it is up waits for it; without it, it starts its own."""
    if settings.spark_master.startswith("local-cluster"):
        return  # wants a Spark home inside the data folder, which is not ours yet
    threading.Thread(target=lambda: launch_java(java_settings(settings)), name="penstock-java", daemon=True).start()


def launch_java(settings: Mapping[str, str]) -> None:
    """Start the JVM with these settings of Spark, unless it runs. It gets a cut environment (see `worker_environment`)."""
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with SparkContext._lock:  # which a session takes, too
        if not SparkContext._gateway:
            gateway = launch_gateway(conf, popen_kwargs=PopenOptions())  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
            if isinstance(gateway, ClientServer):
                _sign_callbacks(gateway)


def _sign_callbacks(gateway: ClientServer) -> None:
    """Have the JVM show the gateway's secret when it calls back.

    PySpark opens a port for callbacks that obeys every account of the machine. py4j has a secret for it, but loses it when it
    learns the number of the port. So the port is opened here, and both sides get the secret afterwards.
    """
    secret = gateway.java_parameters.auth_token
    gateway.python_parameters.auth_token = secret
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    client = JavaObject("GATEWAY_SERVER", gateway._gateway_client).getCallbackClient()
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(client, secret)
