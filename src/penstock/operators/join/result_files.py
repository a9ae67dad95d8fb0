"""Files of join results: merged while they are many, removed once no record that is kept can name them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.cycle.commits import CommitRecord, CommitStore
from penstock.cycle.folder import DataFolder
from penstock.operators.join.result_list import Chunk, JoinResults, make_chunk
from penstock.operators.join.steps.results import FILE_ROWS, INLINE_ROWS, write_results
from penstock.operators.sparksql.evaluation_rows import EVALUATION, file_of
from penstock.views.answer_store import AnswerStore

MOST_CHUNKS = 16


class ResultFiles:
    """The folder `results` of one data folder. Only the follower calls it."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder
        self._seen: set[str] = set()
        self._dropped: list[tuple[int, str]] = []  # (first cycle in which no answer names it, file)
        self._used: set[str] = set()
        self._loading = False

    def note(self, store: AnswerStore) -> None:
        """After a cycle: which files are in use, and which no longer."""
        used = {f for known in store.joins.queries.values() for r in known.lists for f in r.files}
        used |= store.evaluations.files()
        self._dropped += [(store.cycle, name) for name in self._used - used]
        if self._loading:
            self._seen |= used
        self._used = used

    def begin_loading(self) -> None:
        """Forget which files are in use: `note` will collect them again."""
        self._used, self._dropped, self._seen, self._loading = set(), [], set(), True

    def remove_orphans(self, commits: CommitStore) -> None:
        """After loading: files that no record or snapshot names, of a cycle that was never committed."""
        named = self._seen.union(*(files_named(commits.read_snapshot(s)) for s in commits.snapshots()))
        for path in self._folder.results.glob("*.arrow"):
            if path.name not in named:
                path.unlink(missing_ok=True)
        self._seen, self._loading = set(), False

    def compact(self, store: AnswerStore) -> None:
        """Write many small pieces of an answer as one file."""
        for query_id, known in store.joins.queries.items():
            if len(known.results.chunks) > MOST_CHUNKS:
                known.results = self._merged(query_id, known.results)

    def _merged(self, query_id: int, results: JoinResults) -> JoinResults:
        chunks = list(results.chunks)
        tail = [chunks.pop()]
        while chunks and chunks[-1].end == tail[0].first and chunks[-1].table.num_rows < FILE_ROWS:
            tail.insert(0, chunks.pop())
        return JoinResults(results.generation, (*chunks, self._joined(query_id, tail)), results.count)

    def _joined(self, query_id: int, tail: list[Chunk]) -> Chunk:
        if len(tail) == 1:
            return tail[0]
        table = pa.concat_tables([c.table for c in tail])
        file = write_results(self._folder, query_id, table) if table.num_rows > INLINE_ROWS else None
        return make_chunk(tail[0].first, table, file)

    def remove_dropped(self, store: AnswerStore, oldest_snapshot: int | None) -> None:
        """Remove files that neither the answers nor any kept snapshot or record names."""
        self.note(store)
        if oldest_snapshot is None:
            return
        gone = {name for cycle, name in self._dropped if cycle <= oldest_snapshot}
        for name in gone - self._used:
            (self._folder.results / name).unlink(missing_ok=True)
        self._dropped = [(cycle, name) for cycle, name in self._dropped if name not in gone]


def files_named(snapshot: CommitRecord) -> set[str]:
    """The files of results that a snapshot's answers consist of."""
    results = snapshot.results
    payloads = results.filter(pc.equal(results.column("kind"), EVALUATION)).column("payload").to_pylist()
    evaluated = {file for payload in payloads if (file := file_of(payload)) is not None}
    lists = [kept.get(which) for kept in snapshot.info["snapshot"].values() for which in ("results", "coming")]
    return evaluated | {
        chunk[1] for found in lists if found is not None for chunk in found["chunks"] if chunk[1] is not None
    }
