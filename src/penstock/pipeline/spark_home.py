"""A Spark home made of links, without the copy of PySpark in a zip file that the packaged one carries.

Spark puts that zip first on the path of every Python process it starts, and Python compiles what it imports from a
zip anew each time: 0.8 s per process instead of 0.2 s, and a server starts four of them one after the other.
Without it they import the installed PySpark, which is the same and compiled. A local cluster also writes its work
folder into its home, and must not write among packages.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyspark

from penstock.pipeline.java import java_caches

_PARTS = ("bin", "jars", "sbin")


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
    for part in _PARTS:
        link, target = home / part, Path(pyspark.__file__).parent / part
        if target.exists() and not (link.is_symlink() and link.readlink() == target):
            # Aside and renamed: two servers may start at the same moment.
            aside = home / f"{part}.{os.getpid()}"
            aside.symlink_to(target)
            aside.replace(link)
    return home
