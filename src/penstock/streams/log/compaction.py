"""Compaction: many small segments become few large Parquet files, row for row, and the old ones go.

Hot segments are merged once there are more than `compact_after_segments` of them. Parquet files are merged eight of a
size at a time (size tiers), so a row is rewritten about log8 of the log's length often, and a table has some
dozens of files. A merged file appears complete; from then on listings prefer it. What it replaced is removed
after a short grace, in which readers open it by name. A reader that comes too late finds the same rows by their positions
(`segment_rows.read_slice`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.catalog.model import TIME_COLUMN
from penstock.errors import error
from penstock.streams.log.atomic_file import CrashPoint, no_crash, store
from penstock.streams.log.checksums import KEY, ROOM, seal_footer, sealed_schema
from penstock.streams.log.segment_rows import file_schema, open_rows, read_slice
from penstock.streams.log.segments import (
    Segment,
    Slice,
    contiguous,
    cover_around_gaps,
    list_files,
    list_what_is_there,
    segment_name,
)
from penstock.streams.log.stream_log import StreamLog

GRACE_S = 1.0  # longer than a cycle is planned ahead; replaced files count towards the bound meanwhile
FAN = 8
ROW_GROUP_ROWS = 262_144
FREE_MERGE_ROWS = 8_000_000  # below this a merge may be as large a part of the table as it likes
LARGEST_PART = 4  # above it no file is made larger than this part of the table, for retention's sake
HOT_MERGE_ROWS = 32_000_000

CarryKeys = Callable[[int, list[Path]], None]


def choose_run(segments: Sequence[Segment], compact_after: int, files_max: int) -> Sequence[Segment]:
    """The neighbours to merge next, out of a cover; none when all is well."""
    first_hot = next((i for i, s in enumerate(segments) if s.format == "arrow"), len(segments))
    hot, cold = segments[first_hot:], segments[:first_hot]
    if len(hot) > compact_after:
        rows, count = 0, 0
        while count < len(hot) and (count < 2 or rows + hot[count].rows <= HOT_MERGE_ROWS):
            rows, count = rows + hot[count].rows, count + 1
        return hot[:count]
    limit = max(FREE_MERGE_ROWS, sum(s.rows for s in cold) // LARGEST_PART)
    tiers = [int(math.log(s.rows, FAN) + 1e-9) for s in cold]
    for tier in sorted(set(tiers)):
        start, alike, rows = 0, 0, 0
        for i, segment in enumerate(cold):
            if tiers[i] > tier:
                start, alike, rows = i + 1, 0, 0
                continue
            rows, alike = rows + segment.rows, alike + (tiers[i] == tier)
            if alike == FAN:
                if rows <= limit:
                    return cold[start : i + 1]
                break
    if len(cold) > files_max // 4:
        # Bursts can leave sizes that never make a tier: then the cheapest neighbours are merged.
        runs = [cold[i : i + FAN] for i in range(len(cold) - FAN + 1)]
        return min(runs, key=lambda run: sum(s.rows for s in run))
    return []


def merge(run: Sequence[Segment], temporary: Path, crash_point: CrashPoint = no_crash) -> Segment:
    """Write the rows of neighbouring segments as one Parquet file, a row group in memory at a time."""
    first, end = run[0].first, run[-1].end
    low, high = min(s.min_ts for s in run), max(s.max_ts for s in run)
    target = run[0].path.parent / segment_name(first, end, low, high, "parquet")
    schema = file_schema(run[-1].path, run[-1].format)
    # Dictionaries pay for repeated words; for numbers they halve the speed of writing and save nothing.
    words = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]

    def write(path: Path) -> None:
        with pq.ParquetWriter(
            path,
            sealed_schema(schema),
            compression="lz4",
            use_dictionary=words or False,
            write_statistics=[TIME_COLUMN],
            write_page_checksum=True,
        ) as writer:
            for group in _row_groups(run, schema):
                writer.write_table(group, row_group_size=ROW_GROUP_ROWS)
            writer.add_key_value_metadata({KEY: ROOM})
        seal_footer(path)
        rows = open_rows(path, "parquet")
        if rows != end - first:
            raise error("corrupt_segment", segment=target.name, detail=f"{rows} rows came of {end - first}")

    store(temporary, target, write, crash_point, "compact")
    return Segment(target, first, end, low, high, "parquet")


def _row_groups(run: Sequence[Segment], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = 0
    for segment in run:
        for skip in range(0, segment.rows, ROW_GROUP_ROWS):
            count = min(ROW_GROUP_ROWS, segment.rows - skip)
            part = Slice(segment.path, segment.format, segment.first + skip, skip, count)
            waiting.append(read_slice(part, schema=schema))
            rows += count
            if rows >= ROW_GROUP_ROWS:
                whole = pa.concat_tables(waiting)
                yield whole.slice(0, ROW_GROUP_ROWS)
                waiting = [whole.slice(ROW_GROUP_ROWS)]
                rows -= ROW_GROUP_ROWS
    if rows:
        yield pa.concat_tables(waiting)


class Compactor:
    """Merges and removes, one table at a time, from one thread.

    `carry_keys` makes the idempotency keys of hot segments durable elsewhere before they go.
    """

    def __init__(
        self,
        log: StreamLog,
        carry_keys: CarryKeys,
        grace_s: float = GRACE_S,
        crash_point: CrashPoint = no_crash,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._now_s = now_s
        self._carry_keys = carry_keys
        self._grace_s = grace_s
        self._crash_point = crash_point
        self._unwanted: dict[Path, float] = {}  # since when no listing leads to the file
        self.merges = 0

    def compact(self, table_id: int) -> bool:
        """Do the most pressing merge of a table, if any; remove what is due. True if there may be more to do."""
        settings = self._log.settings
        # Around a file that is missing, neighbours on each side are merged as ever.
        pieces = contiguous(list_what_is_there(self._log.folder, table_id))
        runs = (choose_run(p, settings.compact_after_segments, settings.files_max_per_table) for p in pieces)
        run = next((run for run in runs if len(run) > 1), [])
        if len(run) > 1:
            merge(run, self._log.temporary, self._crash_point)
            self.merges += 1
        self.remove(table_id, 0)
        return len(run) > 1

    def remove(self, table_id: int, floor: int) -> int:
        """Remove files that a merged one replaced, and files wholly below `floor`; returns how many went.

        The newest file stays whatever the floor says: its name is the table's head.
        """
        files = list_files(self._log.folder / str(table_id))
        chosen = cover_around_gaps(files)
        if not chosen:
            return 0
        wanted = {s.path for s in chosen if s.end > floor} | {chosen[-1].path}
        unwanted = sorted((s for s in files if s.path not in wanted), key=lambda s: s.first)
        now = self._now_s()
        for segment in unwanted:
            self._unwanted.setdefault(segment.path, now)
        before = now - self._grace_s
        due = [s for s in unwanted if self._unwanted[s.path] <= before]
        if due:
            self._carry_keys(table_id, [s.path for s in due if s.format == "arrow"])
            self._crash_point("compact:keys_carried")
        for segment in due:
            segment.path.unlink(missing_ok=True)
            self._unwanted.pop(segment.path, None)
            self._crash_point("compact:removed_one")
        self._log.recount_files(table_id)
        return len(due)
