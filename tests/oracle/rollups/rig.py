"""A database with rollups and all rows it was ever given, side by side, through retention, crashes and restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.operators.aggregate.rollups import files, keeper
from penstock.operators.aggregate.rollups.once import answer_once
from penstock.sql.parse import parse_select
from penstock.sql.planning.planner import asked_once
from penstock.streams.log.atomic_file import no_crash
from penstock.views.standing_queries import Intervals
from tests.oracle.aggregates.model import Condition, Question, same
from tests.oracle.aggregates.rig import BEGAN_US, COLUMNS, STATIC_CONDITIONS, STREAM_CONDITIONS, Rig, sorted_rows
from tests.support.manual_clock import ManualClock

TIERS = (
    "EVERY 1 SECOND",
    "EVERY 1 SECOND KEEP 12 SECONDS, EVERY 4 SECONDS",
    "EVERY 2 SECONDS KEEP 8 SECONDS, EVERY 4 SECONDS KEEP 25 SECONDS, EVERY 12 SECONDS KEEP FOR EVER",
    "EVERY 1 SECOND KEEP 9 SECONDS, EVERY 5 SECONDS KEEP 40 SECONDS",
)
GROUPS: tuple[tuple[str, ...], ...] = (("id", "place", "kind", "level"), ("kind", "place"), ())
CALLS: tuple[tuple[str, str | None], ...] = (
    *(("sum", c) for c in ("value", "whole", "amount")),
    *((f, c) for f in ("min", "max") for c in ("value", "whole", "name", "amount")),
    *((f, "value") for f in ("first", "last", "corr", "stddev_samp", "filtered", "count")),
)
KEPT = (
    "SUM(value), SUM(whole), SUM(amount), MIN(value), MAX(whole), MIN(name), MAX(amount), FIRST(value),"
    " CORR(value, whole), STDDEV_SAMP(value), SUM(value) FILTER (WHERE kind = 2), COUNT(value)"
)


class Crash(BaseException):
    """The process ends here."""


class RollupRig(Rig):
    """Stories with a retention of six seconds, and what is older."""

    def __init__(self, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seed(seed)
        self.kept, self.compared_older = {}, 0
        self.files_lost = self.files_kept = 0
        self._intervals = Intervals(snapshot_cycles=7, trim_cycles=3, replaced_s=0.0)
        # Steps, blocks and files as small as the story.
        monkeypatch.setattr(keeper, "CELLS_PER_BLOCK", 3)
        monkeypatch.setattr(keeper, "STEP_ROWS", self.random.choice([5, 50, 1000]))
        monkeypatch.setattr(keeper, "FILES_PER_BLOCK", self.random.choice([1, 2, 4]))
        self.folder, self.clock = folder, ManualClock(BEGAN_US)
        self.time = self.random.choice(["valid", "transaction"])
        self.rows, self.sensors, self.questions, self.watching = [], {}, {}, {}
        self.names = self.compared = self.rolled = self.crashes = self.asked = 0
        self.open()
        order = ", out_of_order = 'accept'" if self.time == "valid" else ""
        self.db.execute(f"CREATE TABLE probes {COLUMNS} WITH (time = '{self.time}'{order}, retention = '6 SECONDS')")
        for sensor in range(1, 6):
            self.place(sensor)

    def with_subquery(self, question: Question) -> Question:
        return question  # beside a subquery no rollup is asked

    def with_sessions(self, question: Question) -> Question:
        return question  # nor for sessions

    def far_back(self, question: Question) -> Question:
        return question  # windows are as long as the story

    def roll_up(self) -> None:
        """A rollup comes, or goes."""
        rollups = list(self.db.catalog.state.rollups)
        if len(rollups) > 1 or (rollups and self.random.random() < 0.2):
            self.db.execute(f"DROP ROLLUP {self.random.choice(rollups)}")
            return
        self.names += 1
        # The first one can say nearly everything, so that most stories are about more than the log.
        keys = GROUPS[0] if not rollups else self.random.choice(GROUPS)
        where = "" if not rollups else self.random.choice(["", "", " WHERE value > 0", " WHERE id <= 3"])
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        kept = ", ".join([*keys, KEPT])
        self.db.execute(
            f"CREATE ROLLUP r{self.names} ON probes AS SELECT {kept}{where}{group} {self.random.choice(TIERS)}"
        )

    def question(self, name: str) -> Question:
        pick = self.random.choice
        calls = [("count", None), *(call for call in CALLS if self.random.random() < 0.2)]
        streams: list[Condition | None] = [*STREAM_CONDITIONS, ("kind = 2", lambda r: r["kind"] == 2)]
        panes: list[tuple[int | None, int | None]] = [(None, None)] * 3
        panes += [(1_000_000, None), (4_000_000, None), (12_000_000, 4_000_000), (500_000, None)]
        begin = pick([None, 12_000_000, 17_300_000, 31_000_000, 70_000_000, 500_000_000])
        end = pick([0, 0, 0, 9_500_000]) if begin is not None else 0
        keys = pick([(), ("place",), ("kind",), ("kind", "place"), ("id",), ("level",)])
        return Question(name, keys, tuple(calls), begin, end, *pick(panes), pick(STATIC_CONDITIONS), pick(streams))

    def forget(self) -> None:
        """Retention takes what is too old; sometimes the server dies while readings are rolled up."""
        if self.random.random() < 0.3:
            self._die_at(self.random.randint(1, 12))
        try:
            self.db.housekeeper.tend(self.table_id)
        except Crash:
            self.crashes += 1
            self.db.stop()
            self.open()
        self.crash_point = no_crash
        self.db.rollups.sweep(grace_s=0)
        self._check_files()

    def _die_at(self, count: int) -> None:
        left = [count]

        def crash(step: str) -> None:
            left[0] -= step.startswith("rollup:")
            if left[0] == 0:
                raise Crash(step)

        self.crash_point = crash

    def _check_files(self) -> None:
        """Everything that is named is there, and nothing else, once cycles know it."""
        folder, state = self.folder / files.FOLDER, self.db.catalog.state
        named = set()
        for rollup in state.rollups.values():
            rolled = state.rolled_up(rollup.id)
            assert rolled is not None and rolled.position >= state.retention(self.table_id)
            named |= {files.path_of(self.folder, rollup.id, f.every_us, f.number) for f in rolled.files}
        there = set(folder.glob("*/*/*"))
        assert named <= there
        if self.db.standing.store.state.position == state.position:
            assert named == there

    def step(self) -> None:
        action = self.random.choices(
            [self.push, self.cycle, self.create, self.drop, self.wait, self.move, self.forget, self.roll_up],
            [30, 20, 6, 2, 25, 2, 16, 1],
        )[0]
        if action == self.create and len(self.questions) >= 4:
            action = self.drop
        action()
        if action == self.cycle:
            self.compare()

    def compare(self) -> None:
        store = self.db.standing.store
        if store.offset is None:
            return
        (table,) = store.state.tables.values()
        floor, head = store.state.retention(table.id), store.offset.data.get(table.id, 0)
        for name, question in self.questions.items():
            definition = store.state.queries.get(name)
            if definition is not None and definition.id in store.answers and self.random.random() < 0.5:
                self._compare_with(question, floor, head, definition.start_us)

    def _compare_with(self, question: Question, floor: int, head: int, start_us: int | None) -> None:
        ever, offset = self.rows[:head], self.db.standing.store.offset
        assert offset is not None
        now: int | None = offset.now_us
        if self.time == "valid":
            now = max((r["ts"] for r in ever if question.passes(r)), default=None)
        result = self.db.standing.invoke(question.name)
        note, rows = result.rolled_up, ever[floor:]
        if note is not None and note.window_us is not None:
            low, high = note.window_us
            rows = [r for r in ever if low <= r["ts"] <= high]
            if note.kept_from_us is not None and any(r["ts"] < note.kept_from_us for r in rows):
                return  # what is older is not all there, and the answer says so
            self.rolled += any(r["position"] < floor for r in rows)
        elif note is not None:
            begin = start_us if question.begin_us is None else (now or 0) - question.begin_us
            taken = [r for r in ever[:floor] if note.kept_from_us is None or r["ts"] >= note.kept_from_us]
            rows = [*[r for r in taken if begin is None or r["ts"] >= begin], *rows]
        ours, theirs = sorted_rows(result.table), question.answer(rows, now, start_us)
        if question.begin_us is not None:
            self._ask_once(question, ours)
        self.compared += 1
        assert same(ours, theirs), (question.sql, now, note, ours, theirs)

    def _ask_once(self, question: Question, ours: list[tuple[Any, ...]]) -> None:
        """Who asks once at the same cycle gets the same."""
        asked = asked_once(parse_select(question.sql), self.db.standing.store.state)
        assert asked is not None
        once = answer_once(self.db.standing, asked)
        assert once is None or same(sorted_rows(once.table), ours), (question.sql, once, ours)
        self.asked += once is not None
