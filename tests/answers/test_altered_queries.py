"""A query that changes, or goes, while somebody asks it: an answer that is held is what it was, and who comes late hears so."""

from __future__ import annotations

import pytest

from penstock.errors import PenstockError
from penstock.sql.plan import plan_from_json
from tests.support.pipe import Pipe

ASKED = {
    "counted": "SELECT place, APPROX_COUNT(*, 0.1) AS n FROM probes GROUP BY place",
    "added": "SELECT window_start, APPROX_SUM(value, 0.1) AS n FROM probes GROUP BY TUMBLE(1 SECOND)",
    "within": "SELECT COUNT(*) AS n FROM probes WHERE value >= 0.9 * (SELECT MAX(value) FROM probes) WITHIN 1 PERCENT",
}


@pytest.mark.parametrize("name", ASKED)
def test_an_approximate_answer_of_before_is_given_after_the_change(name: str, pipe: Pipe) -> None:
    """Cells stay fine for as long as END asks: with another END they are others, and the old ones are nobody's."""
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS {ASKED[name]} BEGIN (NOW - 1 HOUR) END (NOW)")
    for values in ((1.0, 2.0), (3.0,)):
        pipe.push(*values)
        pipe.engine.drain()
    held, expected = pipe.db.standing.held("q"), pipe.answer("q", "n")
    held_later = pipe.db.standing.held("q")
    pipe.db.standing.store.slices.said._answers.clear()
    pipe.db.execute("ALTER QUERY q SET BEGIN (NOW - 1 HOUR) END (NOW - 5 MINUTES)")
    pipe.push(4.0)
    pipe.engine.drain()
    assert held.rows(held.inside()).column("n").to_pylist() == expected
    assert held_later.rows(held_later.inside()).column("n").to_pylist() == expected


def test_a_subscriber_from_a_cycle_hears_what_came_after_it_whatever_happened_to_the_window(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute(f"CREATE QUERY q AS {ASKED['counted']} BEGIN (NOW - 1 HOUR) END (NOW)")
    for values in ((1.0, 2.0), (3.0,)):
        pipe.push(*values)
        pipe.engine.drain()
    subscription = pipe.db.subscribe("q", pipe.db.standing.store.cycle)
    pipe.db.execute("ALTER QUERY q SET BEGIN (NOW - 1 HOUR) END (NOW - 5 MINUTES)")
    pipe.engine.drain()
    event = subscription.next(0)
    assert event is not None and event.table.to_pylist() == [{"place": "north", "n": 3.0}]


def test_a_query_that_is_dropped_between_two_steps_of_a_question_is_gone(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY q AS SELECT value FROM probes")
    pipe.engine.drain()
    definition = pipe.db.definition("q")
    pipe.db.execute("DROP QUERY q")
    with pytest.raises(PenstockError) as refused:
        pipe.db.wait_for_query(definition)
    assert (refused.value.condition, refused.value.hint) == ("query_not_found", "it was dropped")


def test_the_answer_of_a_state_that_was_dropped_meanwhile_is_sent_all_the_same(pipe: Pipe) -> None:
    pipe.probes()
    pipe.db.execute("CREATE QUERY q AS SELECT COUNT(*) AS n FROM probes GROUP BY LATCH BEGIN (START - 1 HOUR)")
    pipe.push(1.0)
    pipe.engine.drain()
    definition, found = pipe.db.definition("q"), pipe.db.standing.invoke("q")
    pipe.db.execute("DROP QUERY q")
    pipe.engine.drain()
    plan, state = plan_from_json(definition.plan), pipe.db.catalog.state
    said = pipe.db.completeness.say(found, plan, definition.start_us, state)
    assert said.table.to_pylist() == [{"n": 1}]
