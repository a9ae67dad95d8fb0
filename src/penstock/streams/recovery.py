"""Opening a table's log after whatever ended the last writer: where it ends, and what cannot be read of its end."""

from __future__ import annotations

import logging
from pathlib import Path

from penstock.errors import PenstockError, error
from penstock.streams.queued import TableLog
from penstock.streams.segments import list_files, open_rows
from penstock.streams.storing import make_folder

logger = logging.getLogger(__name__)


def open_table(folder: Path, shelf: Path) -> tuple[TableLog, int]:
    """Head and newest time of a table from its file names, and how many of its newest files were moved to `shelf`.

    Those are the ones that cannot be opened: nothing comes after them, so the log goes on before them.
    """
    moved = 0
    while True:
        # Not a cover: a file missing in the middle must stop its readers, not the server.
        files = list_files(folder)
        if not files:
            return TableLog(), moved
        newest = max(files, key=lambda segment: (segment.end, segment.rows))
        try:
            rows = open_rows(newest.path, newest.format)
            if rows != newest.rows:
                raise error("corrupt_segment", segment=newest.path.name, detail=f"it holds {rows} rows")
        except PenstockError as problem:
            moved += 1
            make_folder(shelf)
            newest.path.rename(shelf / newest.path.name)
            logger.warning("moved to %s: %s", shelf, problem)
            continue
        return TableLog(newest.end, max(segment.max_ts for segment in files), len(files)), moved
