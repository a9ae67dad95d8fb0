"""The environment of processes that run users' code: what they need, and no secrets.

The server's own may hold passwords and tokens, because settings are read from variables and sensors may name one.
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
    """The variables of `environ` that such processes get."""
    kept = (name for name in environ if name in KEPT or name.startswith(KEPT_PREFIXES))
    return {name: environ[name] for name in kept if not any(word in name.upper() for word in _SECRET_WORDS)}
