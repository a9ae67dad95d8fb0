"""Security settings of connections to Spark: each connection needs Spark's secret.

A driver runs code of processes that connect to it, and its traffic has readings and definitions. With other machines, traffic
is signed and encrypted with a secret from a file, or Spark is not started. On this machine (`local[..]`, `local-cluster[..]`)
traffic stays on loopback, which other accounts of the machine reach, too: it is signed with a secret made at each start.
"""

from __future__ import annotations

import os
import re
import secrets
import stat

from penstock.errors import PenstockError, error
from penstock.settings import Settings

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
