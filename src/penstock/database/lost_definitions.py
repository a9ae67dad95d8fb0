"""Find journal entries that are lost although they were acknowledged: other files name them. Their numbers are not reused.

Commit records name journal positions; log rows name versions of static rows; folders name tables, rollups and sinks. Where the
journal ends before what they name, an entry of kind `lost` takes the missing numbers, so that no new definition gets one that
old rows carry. The loss itself is named in `penstock.damage`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from penstock.catalog.catalog import Catalog
from penstock.catalog.model import VERSION_COLUMN
from penstock.catalog.state import CatalogState
from penstock.damage import damage_of, move_folder_aside
from penstock.errors import PenstockError
from penstock.streams.log.segment_rows import read_slice
from penstock.streams.log.segments import list_what_is_there, slices


def reserve_lost(root: Path, catalog: Catalog, journal_named: int, committed: Mapping[int, int]) -> None:
    """Look for lost entries after a start.

    `journal_named` is the highest position that commit records name, `committed` how far they have read each log: rows below
    that met their definitions.
    """
    state = catalog.state
    unknown = [t for t in _numbers(root / "log") if t >= state.next_table_id]
    missing = journal_named - state.position
    heads = state.heads()
    if missing <= 0:
        heads = {t: max(heads.get(t, 0), committed.get(t, 0)) for t in state.tables_by_id}
    versions = _versions_named(root / "log", state, heads)
    if missing <= 0 and not unknown and not versions:
        return
    first, count = state.position + 1, max(missing, 1)
    folders = {"table": "log", "rollup": "rollups", "sink": "sinks"}
    above = {name: max(_numbers(root / folder), default=0) + 1 for name, folder in folders.items()}
    for table_id in unknown:
        move_folder_aside(root, root / "log" / str(table_id), "log", "the journal has lost the definition of its table")
        if (root / "streams" / str(table_id)).is_dir():
            move_folder_aside(root, root / "streams" / str(table_id), "log", "the definition of its table is lost")
    catalog.lose(count, versions, above)
    which = f"entry {first}" if count == 1 else f"entries {first} to {first + count - 1}"
    named = f"commit records name entry {journal_named}" if missing > 0 else "the log names what it defined"
    tables = ", ".join(f'"{state.tables_by_id[t].name}"' for t in versions)
    detail = f"the journal ends with entry {first - 1}, but {named}"
    if tables:
        detail += f"; sensors of {tables} that it defined are NULL in answers"
    damage_of(root).note(f"journal {which}", "journal", detail)


def _numbers(folder: Path) -> list[int]:
    return [int(path.name) for path in folder.iterdir() if path.name.isdigit()] if folder.is_dir() else []


def _versions_named(log: Path, state: CatalogState, heads: Mapping[int, int]) -> dict[int, int]:
    """By table, how many static versions there must be, where log rows from `heads` on name versions that are not defined."""
    found = {}
    for table_id in state.tables_by_id:
        known, most = state.rows(table_id).count, 0
        segments = list_what_is_there(log, table_id)
        for part in slices(segments, heads.get(table_id, 0), max((s.end for s in segments), default=0)):
            try:
                vids = read_slice(part, [VERSION_COLUMN.name]).column(0).to_numpy()
            except PenstockError:
                continue  # readers of the log get this error
            most = max(most, int(np.max(vids, initial=-1)) + 1)
        if most > known:
            found[table_id] = most
    return found
