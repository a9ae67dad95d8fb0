"""Pushes readings until it dies at one step of a commit or a merge, and goes on after a restart.

`python -m tests.streams.log.crash_child FOLDER STEP:COUNT ...` runs one process after the other on the folder, each
ending without a word when it reaches its step for the COUNTth time. Prints their exit codes: 7 if it died there.
All are forks of this one, which has imported everything but started nothing: that takes the seconds out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from penstock.clock import WallClock
from penstock.settings import Settings
from penstock.streams.ingest.ingest import Ingest
from penstock.streams.ingest.rules import warm_up
from penstock.streams.log.compaction import Compactor
from penstock.streams.log.stream_log import StreamLog
from tests.streams.doubles import StateDouble, make_table
from tests.support.crashing import crash_at


def main(folder: Path, step: str, count: int) -> None:
    crash_point = crash_at(step, count, lambda: os._exit(7))
    state = StateDouble(make_table(time="transaction"))
    clock, settings = WallClock(), Settings(compact_after_segments=4)
    log = StreamLog(folder, settings, clock, crash_point)
    ingest = Ingest(log, lambda: state, clock, settings)
    compactor = Compactor(
        log,
        lambda t, paths: ingest.tables.key_file(t).carry(paths, clock.now_us()),
        grace_s=0.0,
        crash_point=crash_point,
    )
    # The sender goes on where its last acknowledgement was, and repeats what it does not know about.
    done = folder / "acknowledged"
    start = int(done.read_text()) if done.exists() else 0
    with done.open("w") as file:
        for number in range(start, start + 40):
            rows = [{"sensor_id": 1, "ppm": 1.0, "seq": number}, {"sensor_id": 2, "ppm": 1.0, "seq": number}]
            receipt = ingest.push("probes", rows, f"key-{number}").result(10)
            assert receipt.position == 2 * number + 2, receipt
            file.seek(0)
            file.write(str(number + 1))
            file.flush()
            compactor.compact(3)
    log.close()


if __name__ == "__main__":
    where = Path(sys.argv[1])
    warm_up()
    for argument in sys.argv[2:]:
        name, _, times = argument.rpartition(":")
        child = os.fork()
        if child == 0:
            main(where, name, int(times))
            sys.stdout.flush()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
