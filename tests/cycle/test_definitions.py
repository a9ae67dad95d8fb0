"""A worker follows the journal: what it holds equals what a fresh worker would build, at the cost of what changed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.catalog.model import Table
from penstock.cycle import definitions as definitions_module
from penstock.cycle.definitions import Definitions, definitions_at, definitions_since
from penstock.cycle.step_cache import steps_of
from penstock.operators.select.step import SelectStep
from penstock.sql.plan import plan_from_json
from tests.support.pipe import Pipe
from tests.support.watched import watched


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    pipe = Pipe(tmp_path / "data")
    pipe.probes()
    pipe.db.execute("CREATE TABLE others (id INT PRIMARY KEY, reading STREAM (value DOUBLE))")
    yield pipe
    pipe.db.stop()


@pytest.fixture
def plans_read() -> Iterator[list[object]]:
    read: list[object] = []
    with watched(plan_from_json, tell=read.append, by=definitions_module.__name__):
        yield read


def create(pipe: Pipe, name: str, number: float, table: str = "probes") -> None:
    pipe.db.execute(
        f"CREATE QUERY {name} AS SELECT value FROM {table} WHERE value > {number} AND id = 1 BEGIN (NOW - 1 HOUR) END (NOW)"
    )


def shared_pass(definitions: Definitions, table: Table, only: frozenset[int] | None) -> SelectStep:
    (found,) = (step for step in steps_of(definitions, table, only) if isinstance(step, SelectStep))
    return found


def held(shared: SelectStep) -> object:
    """All that decides what a pass answers."""
    index = shared._index
    terms = index._selections.factors._terms
    predicates = {
        q: (index._statics._terms.get(index._masks[answer]), {terms[slot] for slot in index._selections.slots(answer)})
        for q, answer in index._answer_of.items()
    }
    return shared._needs, shared._computed, shared._keeping_of, shared.columns, predicates


def check(pipe: Pipe, follower: Definitions) -> None:
    position = pipe.db.catalog.state.position
    follower.advance(position)
    fresh = Definitions(pipe.folder)
    fresh.advance(position)
    for table in fresh.state.tables.values():
        assert held(shared_pass(follower, table, None)) == held(shared_pass(fresh, table, None))


def test_a_follower_equals_a_fresh_worker_whatever_comes_and_goes(pipe: Pipe) -> None:
    chance = random.Random(7)
    follower = Definitions(pipe.folder)
    names: list[str] = []
    for step in range(60):
        what = chance.choice(["create", "create", "drop", "window", "pause", "resume", "function", "again"])
        name = chance.choice(names) if names else None
        if what == "create" or name is None:
            names.append(f"q{step}")
            create(pipe, names[-1], chance.randrange(5), chance.choice(["probes", "others"]))
        elif what == "drop":
            names.remove(name)
            pipe.db.execute(f"DROP QUERY {name}")
        elif what == "again":
            # Dropped and registered again under its name between two looks.
            pipe.db.execute(f"DROP QUERY {name}")
            create(pipe, name, chance.randrange(5))
        elif what == "window":
            pipe.db.execute(f"ALTER QUERY {name} SET BEGIN (NOW - {step + 1} MINUTES)")
        elif what == "function":
            pipe.db.execute(f"CREATE FUNCTION f{step}(x DOUBLE) RETURNS BOOLEAN LANGUAGE python AS $$ return x > 1 $$")
            names.append(f"q{step}")
            pipe.db.execute(
                f"CREATE QUERY q{step} AS SELECT value FROM probes WHERE f{step}(value) BEGIN (NOW - 1 HOUR) END (NOW)"
            )
        else:
            pipe.db.execute(f"ALTER QUERY {name} {what.upper()}")
        if chance.random() < 0.5:
            check(pipe, follower)
    check(pipe, follower)


def test_only_plans_of_queries_that_changed_are_read(pipe: Pipe, plans_read: list[object]) -> None:
    for number in range(40):
        create(pipe, f"q{number}", number)
    follower = Definitions(pipe.folder)
    check(pipe, follower)
    plans_read.clear()
    pipe.db.execute("DROP QUERY q3")
    pipe.db.execute("ALTER QUERY q4 SET BEGIN (NOW - 2 HOURS)")
    create(pipe, "q40", 7)
    follower.advance(pipe.db.catalog.state.position)
    table = follower.state.tables["probes"]
    ids = {name: definition.id for name, definition in follower.state.queries.items()}
    assert len(shared_pass(follower, table, None)) == 40
    assert len(plans_read) == 2
    # A fill uses the plans that are there already.
    few = shared_pass(follower, table, frozenset([ids["q5"], ids["q40"], 999]))
    assert set(few) == {ids["q5"], ids["q40"]} and len(plans_read) == 2
    assert shared_pass(follower, table, frozenset([ids["q5"], ids["q40"], 999])) is few


def test_a_worker_keeps_few_plans_however_many_queries_there_are(pipe: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definitions_module, "_PLANS_KEPT", 4)
    for number in range(20):
        create(pipe, f"q{number}", number)
    follower = Definitions(pipe.folder)
    check(pipe, follower)
    assert len(follower._plans) == 4
    pipe.db.execute("ALTER QUERY q19 SET BEGIN (NOW - 2 HOURS)")
    pipe.db.execute("DROP QUERY q18")
    check(pipe, follower)


def test_a_question_that_is_ahead_of_the_cycles_does_not_make_them_begin_anew(pipe: Pipe) -> None:
    root, before = str(pipe.folder), pipe.db.catalog.state.position
    cycles = definitions_at(root, before)
    create(pipe, "q", 1)
    after = pipe.db.catalog.state.position
    asked = definitions_since(root, after)
    assert asked is not cycles and asked.state.position == after
    assert definitions_at(root, before) is cycles and "q" not in cycles.state.queries
    assert definitions_since(root, after) is asked
    assert definitions_at(root, after) is cycles and definitions_since(root, after) is cycles
