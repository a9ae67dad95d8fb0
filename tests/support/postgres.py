"""A PostgreSQL of one's own: a cluster in a temporary folder, reached by a socket in it, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    import psycopg

ABSENT = "LEFT OUT: no PostgreSQL here (initdb and postgres, on PATH or in /usr/lib/postgresql/*/bin)"


class PrivatePostgres:
    """A running server. `stop` and `start` end and revive it with its data."""

    def __init__(self, folder: Path, binaries: Path, user: str | None) -> None:
        self._folder = folder
        self._binaries = binaries
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://penstock@/postgres?host={quote(str(folder))}"

    def initialise(self) -> None:
        options = ["-D", str(self._folder / "data"), "-U", "penstock", "-A", "trust", "-E", "UTF8", "--no-sync"]
        self._run([str(self._binaries / "initdb"), *options, "--locale=C"]).communicate()

    def start(self) -> None:
        settings = {"listen_addresses": "", "unix_socket_directories": str(self._folder), "fsync": "off"}
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = self._run([str(self._binaries / "postgres"), "-D", str(self._folder / "data"), *arguments])
        deadline = time.monotonic() + 60
        while not (self._folder / ".s.PGSQL.5432").exists() or not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "output").read_text(errors="replace"))
            time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def connect(self) -> psycopg.Connection[Any]:
        """A connection by the socket; each statement commits by itself."""
        import psycopg

        return psycopg.connect(host=str(self._folder), user="penstock", dbname="postgres", autocommit=True)

    def empty(self) -> None:
        """Drop all tables and functions that were made since its start."""
        with self.connect() as connection:
            connection.execute("SET client_min_messages = 'error'; DROP SCHEMA public CASCADE; CREATE SCHEMA public")

    def _answers(self) -> bool:
        import psycopg

        try:
            with psycopg.connect(host=str(self._folder), user="penstock", dbname="postgres", connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def _run(self, command: list[str]) -> subprocess.Popen[bytes]:
        with (self._folder / "output").open("ab") as output:
            return subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, user=self._user
            )


def find_binaries() -> Path | None:
    """The folder of initdb and postgres, if there is one."""
    found = shutil.which("initdb")
    candidates = [Path(found).resolve().parent] if found else []
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((c for c in candidates if (c / "initdb").exists() and (c / "postgres").exists()), None)


def unprivileged_user() -> str | None:
    """PostgreSQL refuses to run as root; None where we are not."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in known)


@contextmanager
def private_postgres(binaries: Path) -> Iterator[PrivatePostgres]:
    user = unprivileged_user()
    # Not pytest's own folder: other users may not enter that, and a socket's path must be short.
    folder = Path(tempfile.mkdtemp(prefix="penstock-pg-"))
    try:
        if user is not None:
            shutil.chown(folder, user)
        server = PrivatePostgres(folder, binaries, user)
        server.initialise()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
