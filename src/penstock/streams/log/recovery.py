"""Opening a table's log after whatever ended the last writer: where it ends, and what cannot be read of its end."""

from __future__ import annotations

from pathlib import Path

from penstock.damage import DamageReport
from penstock.errors import PenstockError, error
from penstock.streams.log.pending_rows import LONG_AGO, TableLog
from penstock.streams.log.segment_rows import open_rows
from penstock.streams.log.segments import list_files


def open_table(folder: Path, report: DamageReport) -> tuple[TableLog, int]:
    """Head and newest time of a table from its file names, and how many of its newest files were moved to `corrupt/`.

    Those are the ones that cannot be opened: nothing comes after them, so the log goes on before them, unless a commit or
    a journal entry has named their positions already (`StreamLog.reserve`). Times go on after theirs.
    """
    moved = 0
    last_ts = LONG_AGO
    while True:
        # Not a cover: a file missing in the middle must stop its readers, not the server.
        files = list_files(folder)
        if not files:
            return TableLog(last_ts=last_ts), moved
        newest = max(files, key=lambda segment: (segment.end, segment.rows))
        try:
            rows = open_rows(newest.path, newest.format)
            if rows != newest.rows:
                raise error("corrupt_segment", segment=newest.path.name, detail=f"it holds {rows} rows")
        except PenstockError as problem:
            moved += 1
            last_ts = max(last_ts, newest.max_ts)
            report.set_aside(newest.path, "log", problem.message)
            continue
        return TableLog(newest.end, max(last_ts, *(segment.max_ts for segment in files)), len(files)), moved
