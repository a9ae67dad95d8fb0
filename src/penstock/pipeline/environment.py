"""The environment of Spark's JVM and of the Python workers that it starts: what they need, and no secrets.

The server's own environment may hold a token, a database's address or a cloud's keys. Code that a question runs never
needs them, so the JVM is started without them, and its workers inherit from it.
"""

from __future__ import annotations

from collections.abc import Mapping

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
