"""Snapshots of the catalog: the state after a journal entry in one file, so that the lines up to it can be damaged or gone.

`journal/snapshot-<position>.json.zst` holds every definition, every version of static rows (log rows name them for ever), what
was observed, retained and rolled up, and the journal's chain hash at that entry. A checksum covers all of it.
"""

from __future__ import annotations

import os
import re
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from penstock.catalog.definition_json import (
    function_from_json,
    function_to_json,
    query_entry,
    query_from_json,
    sink_from_json,
    sink_to_json,
    stream_type_from_json,
    stream_type_to_json,
    table_from_json,
    table_to_json,
)
from penstock.catalog.rollup_records import (
    rolled_up_from_json,
    rolled_up_to_json,
    rollup_from_json,
    rollup_to_json,
)
from penstock.catalog.rows import StaticRows
from penstock.disk_sync import sync_folder
from penstock.errors import error

if TYPE_CHECKING:
    from penstock.catalog.state import CatalogState

_NAME = re.compile(r"^snapshot-(\d{12})\.json\.zst$")
_HEAD = re.compile(rb"penstock-catalog 1 ([0-9a-f]{8}) (\d+)\n")
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, IndexError, pa.ArrowException)
_MAX_BYTES = 1 << 34


def snapshot_path(folder: Path, position: int) -> Path:
    return folder / "journal" / f"snapshot-{position:012d}.json.zst"


def list_snapshots(folder: Path) -> list[int]:
    """The positions of all snapshots, ascending, damaged ones too."""
    journal = folder / "journal"
    names = os.listdir(journal) if journal.is_dir() else []
    return sorted(int(match[1]) for name in names if (match := _NAME.match(name)))


def write_snapshot(folder: Path, state: CatalogState, chain: str) -> Path:
    """Put the state in a file, complete or absent; `chain` is the journal's hash at the state's position."""
    text = orjson.dumps(snapshot_of(state, chain), option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    packed = pa.compress(text, codec="zstd", asbytes=True)
    path = snapshot_path(folder, state.position)
    aside = path.with_suffix(".new")
    handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # options hold passwords
    with os.fdopen(handle, "wb") as file:
        file.write(b"penstock-catalog 1 %08x %d\n" % (zlib.crc32(packed, len(text)), len(text)))
        file.write(packed)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    sync_folder(path.parent)
    return path


def read_snapshot(path: Path) -> dict[str, Any]:
    """What a snapshot holds. Raises corrupt_segment where it is not what was written."""
    try:
        data = path.read_bytes()
        head = _HEAD.match(data)
        if head is None:
            raise ValueError("its first line is not that of a snapshot")
        packed, size = data[head.end() :], int(head[2])
        if size > _MAX_BYTES or zlib.crc32(packed, size) != int(head[1], 16):
            raise ValueError("its checksum is wrong: the file has changed since it was written")
        found: dict[str, Any] = orjson.loads(pa.decompress(packed, decompressed_size=size, codec="zstd", asbytes=True))
        if path != snapshot_path(path.parent.parent, found["position"]):
            raise ValueError(f"it is the snapshot of entry {found['position']}")
    except _UNREADABLE as problem:
        raise error("corrupt_segment", segment=f"journal/{path.name}", detail=str(problem)) from problem
    return found


def snapshot_of(state: CatalogState, chain: str) -> dict[str, Any]:
    """Everything that a state holds, as plain values."""
    return {
        "position": state.position,
        "at_us": state.at_us,
        "chain": chain,
        "next": [state.next_table_id, state.next_query_id, state.next_rollup_id, state.next_sink_id],
        "stream_types": [stream_type_to_json(found) for found in state.stream_types.values()],
        "tables": [table_to_json(table) for table in state.tables.values()],
        "functions": [function_to_json(function) for function in state.functions.values()],
        "queries": [query_entry(query) for query in state.queries.values()],
        "query_positions": [[query, *positions] for query, positions in state.query_positions.items()],
        "rollups": [rollup_to_json(rollup) for rollup in state.rollups.values()],
        "sinks": [sink_to_json(sink) for sink in state.sinks.values()],
        "rows": {table_id: rows.to_json() for table_id, rows in state._rows.items()},
        "observed": state._observed.to_json(),
        "retained": state._retained,
        "rolled_up": {rollup: rolled_up_to_json(known) for rollup, known in state._rolled_up.items()},
        "heads": state._heads.to_json(),
    }


def restore_snapshot(state: CatalogState, data: dict[str, Any]) -> None:
    """Make a state what a snapshot says, whatever it was before."""
    draft = state._definitions.copy()
    for kept in (draft.stream_types, draft.tables, draft.tables_by_id, draft.functions, draft.queries):
        kept.clear()
    for more in (draft.queries_by_id, draft.query_positions, draft.rollups, draft.sinks):
        more.clear()
    for found in map(stream_type_from_json, data["stream_types"]):
        draft.stream_types[found.name] = found
    for table in map(table_from_json, data["tables"]):
        draft.tables[table.name] = draft.tables_by_id[table.id] = table
    for function in map(function_from_json, data["functions"]):
        draft.functions[function.name] = function
    for query in map(state._shared, map(query_from_json, data["queries"])):
        draft.queries[query.name] = draft.queries_by_id[query.id] = query
    draft.query_positions.update({query: (came, changed) for query, came, changed in data["query_positions"]})
    for rollup in map(rollup_from_json, data["rollups"]):
        draft.rollups[rollup.name] = rollup
    for sink in map(sink_from_json, data["sinks"]):
        draft.sinks[sink.name] = sink
    state.next_table_id, state.next_query_id, state.next_rollup_id, state.next_sink_id = data["next"]
    state._rows = {int(t): StaticRows.from_json(draft.tables_by_id[int(t)], rows) for t, rows in data["rows"].items()}
    state._observed.restore(data["observed"])
    state._retained = {int(t): position for t, position in data["retained"].items()}
    state._rolled_up = {int(r): rolled_up_from_json(known) for r, known in data["rolled_up"].items()}
    state._heads.restore(data["heads"])
    state._definitions = draft
    state.at_us, state.position = data["at_us"], data["position"]
