"""A disk that is full refuses readings by name; nothing acknowledged is lost, and work goes on when there is room."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.clock import format_timestamp
from tests.bad_input.asking import Asked, refused
from tests.support.server_process import ServerProcess, server_process

SIZE_MB = 96
BATCH = 500


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, because a test must not fill anybody else's."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("a full disk: only root can mount a small one")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(place)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"a full disk: a small one cannot be mounted here ({mounted.stderr.strip()})")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture
def server(small_disk: Path, tmp_path: Path) -> Iterator[ServerProcess]:
    with server_process(tmp_path) as process:
        process.data = small_disk / "data"
        process.start()
        yield process


def readings(number: int) -> list[dict[str, object]]:
    ts = format_timestamp(time.time_ns() // 1000)
    return [{"id": 1, "ppm": float(number), "n": number * BATCH + i, "ts": ts} for i in range(BATCH)]


def test_a_full_disk_refuses_readings_until_there_is_room(server: ServerProcess, small_disk: Path) -> None:
    asked = Asked(server)
    asked.prepare()
    asked.accept(*readings(1))
    asked.check_intact()

    fill(small_disk / "filler")
    answers = [asked.push(batch) for batch in (readings(2), readings(3))]
    for answer in answers:
        problem = refused(answer, "disk_full", 507)
        assert "nothing was stored" in problem["message"]
    # A few bytes may still fit into the journal's last block; this does not.
    long = "Ada" * 10_000
    refused(asked.sql(f"INSERT INTO keepers VALUES ('roof', '{long}')"), "disk_full", 507)
    assert server.process.poll() is None
    assert asked.http.get("/v1/queries/everything/rows").status_code == 200, "what is there can still be read"

    (small_disk / "filler").unlink()
    deadline = time.monotonic() + 60
    while asked.push(batch := readings(4)).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    asked.rows.update((1, r["ppm"], r["n"]) for r in batch)
    asked.accept(*readings(5))
    server.wait(lambda: asked.http.get("/v1/health").json()["ready"], 60, "ready again")
    server.wait(lambda: asked.answer("everything") == asked.rows, 60, "caught up")
    # A pipeline that met the full disk a last time starts once more.
    server.wait(lambda: asked.http.get("/v1/health").json()["ready"], 60, "ready for good")
    asked.check_intact()
    assert asked.sql("INSERT INTO keepers VALUES ('roof', 'Ada')").status_code == 200

    asked.http.close()
    assert server.stop() == 0
    server.start()
    again = Asked(server)
    again.rows = asked.rows
    again.check_intact()
    assert again.sql("SELECT keeper FROM keepers").json()["rows"] == [["Ada"]]
    again.http.close()


def fill(path: Path) -> None:
    """Take every free block."""
    with path.open("wb", buffering=0) as filler:
        size = 1 << 20
        while size:
            try:
                filler.write(b"\0" * size)
            except OSError:
                size //= 2
