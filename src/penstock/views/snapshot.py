"""Snapshots: write all answers to one record, so that older records can be deleted, and restore them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.cycle.commit_files import ResultRow
from penstock.cycle.commits import CommitRecord
from penstock.cycle.folder import DataFolder
from penstock.cycle.offset import Offset
from penstock.cycle.record_queue import result_table
from penstock.errors import PenstockError
from penstock.expr.windows import any_from_json as window_from_json
from penstock.expr.windows import to_json as window_to_json
from penstock.operators.join.result_list import JoinResults, results_from_json, results_to_json
from penstock.operators.select.bit_matrix import BitMatrixRef
from penstock.operators.select.match_store import MatchStore
from penstock.sql.plan import stream_uses
from penstock.views.query_state import NEVER, QueryState
from penstock.views.record_fold import RecordFold


def snapshot_of(store: RecordFold, cycle: int, start: Offset | None) -> CommitRecord:
    """Everything in one record that `AnswerStore.apply` takes as the first. `start`: where the cycle began."""
    assert store.offset is not None
    rows: list[ResultRow] = []
    details: dict[str, Any] = {}
    for query_id, answer in store.answers.items():
        rows.extend(_matches(query_id, answer))
        details[str(query_id)] = {
            "window": window_to_json(answer.window),
            "matched": store.matched(query_id),
            "fill_first": answer.fill_first,
            "filled_before": answer.filled_before,
            "error": answer.error,
            "error_condition": answer.error_condition,
            "paused": answer.paused,
            "covered": answer.covered,
            "live_since": answer.live_since,
            "reach": answer.reach,
            "results": results_to_json(answer.results),
            "coming": results_to_json(answer.coming),
        }
    for table_id, newest in store.newest.items():
        vids = np.flatnonzero(newest > NEVER)
        payload = vids.astype(np.int64).tobytes() + newest[vids].tobytes()
        rows.append((table_id, "newest", store.rows.get(table_id, 0), 0, payload))
        heard = store.heard[table_id][vids]
        rows.append((table_id, "heard", 0, 0, vids.astype(np.int64).tobytes() + heard.tobytes()))
    for table_id, match_store in store.match_stores.items():
        rows.extend(_match_store(table_id, match_store))
    rows.extend((table_id, "slices", 0, 0, payload) for table_id, payload in store.slices.snapshot())
    rows.extend(store.evaluations.snapshot())
    results = result_table(rows)
    return CommitRecord(cycle, start or store.offset, store.offset, results, {"snapshot": details})


def _matches(query_id: int, answer: QueryState) -> Iterator[ResultRow]:
    for kind, blocks in (("match", answer.matches), ("base", answer.base), ("partnered", answer.partners.blocks)):
        for block, found in blocks.items():
            yield query_id, kind, 0, block, found.serialize()
    for table in answer.values:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        yield query_id, "values", 0, 0, bytes(sink.getvalue())


def _match_store(table_id: int, match_store: MatchStore) -> Iterator[ResultRow]:
    """A match store's lists in full; of its bit matrices only the file, the rows and the queries that they cover."""
    for lists in match_store.lists:
        yield table_id, "lists", 0, lists.first, lists.to_bytes()
    for kept in match_store.sheets:
        yield table_id, "sheet", 0, kept.first, kept.name.to_bytes()
    for lost in match_store.lost:
        name = BitMatrixRef(table_id, lost.first, lost.end, 0, 0, None, lost.members)
        yield table_id, "sheet", 0, lost.first, name.to_bytes()


def restore(answers: Mapping[int, QueryState], record: CommitRecord, folder: DataFolder) -> None:
    """Restore the state of each query, beside its matches, from a snapshot."""
    for query_id, answer in answers.items():
        kept = record.info["snapshot"].get(str(query_id))
        if kept is None:
            continue
        window = window_from_json(kept["window"])
        answer.pending = answer.plan.windows if window != answer.plan.windows else None
        if answer.plan.window_join is not None:
            try:
                answer.results = results_from_json(kept["results"], folder)
                answer.coming = results_from_json(kept["coming"], folder)
            except PenstockError as damage:
                answer.results, answer.coming = JoinResults(0), None
                kept = {**kept, "error": damage.message, "error_condition": damage.condition}
        answer.window = window
        answer.matched, answer.fill_first = kept["matched"], kept["fill_first"]
        answer.filled_before, answer.error = kept["filled_before"], kept["error"]
        answer.paused, answer.error_condition = kept["paused"], kept["error_condition"]
        _restore_coverage(answer, kept, record.end.data.get(stream_uses(answer.plan)[0].table_id, 0))


def _restore_coverage(answer: QueryState, kept: dict[str, Any], head: int) -> None:
    if "covered" in kept:
        answer.covered = tuple((low, high) for low, high in kept["covered"])
        answer.live_since, answer.reach = kept["live_since"], kept["reach"]
    elif answer.paused:  # before there were bit matrices, records had everything that any window reached
        answer.covered, answer.live_since = ((0, head),), None
    else:
        answer.covered, answer.live_since = (), 0
