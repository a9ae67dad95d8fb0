"""How long the trees over an answer are kept, what they may take, and who plans a question that is known."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.operators.aggregate.trees import on_demand
from penstock.sql.parse import parse_script
from tests.support.asked_answers import World
from tests.support.pipe import Pipe
from tests.support.watched import watched


def trees(world: World) -> dict[Any, Any]:
    return world.pipe.db.on_demand.trees._trees


def test_a_tree_is_kept_and_extended_by_what_came_since(seen: World) -> None:
    asked = "SELECT SUM(x) FROM seen"
    seen.ask(asked)
    (kept,) = trees(seen).values()
    rows = len(kept.tree)
    seen.push(50)
    seen.pipe.engine.drain()
    seen.ask(asked)
    assert list(trees(seen).values()) == [kept] and len(kept.tree) > rows
    query = seen.pipe.db.definition("seen").id
    assert seen.pipe.db.query("seen")["memory"] >= kept.tree.nbytes == seen.pipe.db.on_demand.trees.memory_of(query)


def test_a_tree_goes_with_its_query_and_when_nobody_asks(seen: World, monkeypatch: pytest.MonkeyPatch) -> None:
    seen.ask("SELECT SUM(x) FROM seen")
    seen.push(1)
    seen.pipe.engine.cycle()
    assert len(trees(seen)) == 1
    monkeypatch.setattr(on_demand, "UNUSED_S", -1.0)
    seen.push(1)
    seen.pipe.engine.cycle()
    assert not trees(seen)
    monkeypatch.undo()
    seen.ask("SELECT SUM(x) FROM seen")
    seen.pipe.db.execute("DROP QUERY seen")
    seen.pipe.engine.drain()
    assert not trees(seen)


def test_rows_that_nobody_asks_for_any_more_leave_the_tree(seen: World) -> None:
    for _ in range(20):
        seen.push(100)
        seen.pipe.engine.drain()
        seen.check("BEGIN (NOW - 5 SECONDS) END (NOW)")
    assert max(len(t.tree) for t in trees(seen).values()) < 500


def test_trees_keep_to_their_memory_and_spark_answers_what_is_too_large(seen: World) -> None:
    kept = seen.pipe.db.on_demand.trees
    columns = ["x", "n", "big", "x + 1", "n + 1"]
    for column in columns:
        seen.ask(f"SELECT SUM({column}) FROM seen")
    one = max(t.tree.nbytes for t in trees(seen).values())
    kept.most_bytes = 3 * one
    for column in columns:
        seen.ask(f"SELECT SUM({column}) FROM seen")
        assert sum(t.tree.nbytes for t in trees(seen).values()) <= 3 * one
    assert {str(column) for _, column in trees(seen)} >= {"add(n, 1)", "add(x, 1.0)"}
    kept.most_bytes = 100
    seen.pipe.db.on_demand.trees._trees.clear()
    with pytest.raises(AssertionError, match="Spark was asked"):
        seen.ask("SELECT SUM(x) FROM seen")


def test_a_history_too_long_to_evaluate_is_left_to_spark(pipes: Callable[..., Pipe]) -> None:
    world = World(pipes(answer_read_max_rows=50))
    for _ in range(2):
        world.push(100, late_s=0)
        world.pipe.engine.drain()
    # The file of its first reading is read by cycles; the one before is not.
    world.pipe.db.execute("CREATE QUERY seen AS SELECT x, n, big, word, ts FROM probes")
    world.pipe.engine.drain()
    assert world.ask("SELECT COUNT(*) AS n FROM seen BEGIN (NOW - 0 SECONDS) END (NOW - 0 SECONDS)") == {"n": 1}
    with pytest.raises(AssertionError, match="Spark was asked"):
        world.ask()


def test_a_question_asked_again_is_not_planned_again_until_a_definition_changes(seen: World) -> None:
    asked = "SELECT COUNT(*) AS n, MAX(x) AS most FROM seen"
    before = seen.ask(asked)
    with watched(parse_script, tell=lambda _: pytest.fail("it is planned again")):
        assert seen.ask(asked) == before
        seen.push(40)
        seen.pipe.engine.drain()
        seen.push(1)
        seen.pipe.engine.drain()
        assert seen.ask(asked)["n"] > before["n"]
    seen.pipe.db.execute("DROP QUERY seen")
    with pytest.raises(PenstockError, match="seen") as caught:
        seen.ask(asked)
    assert caught.value.condition == "table_not_found" and caught.value.sql == asked


def test_parameters_are_no_part_of_a_text_that_is_known(seen: World) -> None:
    asked = "SELECT SUM(n + $1) - SUM(n) AS d, COUNT(n) AS c FROM seen"
    for step in (1, 5):
        (row,) = seen.pipe.db.execute(asked, [step]).table.to_pylist()
        assert row["d"] % 2**32 == step * row["c"] % 2**32


def test_answers_that_stand_in_sheets_are_read_from_there_and_without_them_all_the_same(world: World) -> None:
    db = world.pipe.db
    window = "BEGIN (NOW - 1 MINUTE) END (NOW)"
    db.register([(f"q{n}", f"SELECT x FROM probes WHERE n >= {-n} {window}") for n in range(80)])
    db.register([("seen", f"SELECT x, n, big, word, ts FROM probes WHERE n > -3 {window}")])
    world.pipe.engine.drain()
    for _ in range(4):
        world.push(700)
        world.pipe.engine.drain()
        world.check()
        short, long = (world.check(f"BEGIN (NOW - {d}) END (NOW)") for d in ("20 SECONDS", "5 MINUTES"))
    assert 0 <= short < long
    sheets = list(db.folder.sheets.glob("*.sheet"))
    assert sheets
    for path in sheets:
        path.unlink()
    db.on_demand.trees._trees.clear()
    world.check()


def test_many_ask_at_once_while_rows_come(seen: World) -> None:
    failures: list[BaseException] = []
    going = threading.Event()

    def ask() -> None:
        try:
            while not going.is_set():
                row = seen.ask("SELECT COUNT(*) AS n, COUNT(n) AS m, SUM(n) - SUM(n) AS zero FROM seen")
                assert row["n"] == row["m"] and row["zero"] == 0
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(15):
        seen.push(40)
        seen.pipe.engine.drain()
    going.set()
    for thread in threads:
        thread.join()
    assert not failures
    seen.check()
