"""All recipes of the documentation on Spark, with readings and the answers that were worked out by hand."""

from __future__ import annotations

from penstock.database.database import Database
from tests.spark.asking import eventually
from tests.support.recipes import ANSWERS, check, push, recipes, set_up


def test_recipes_answer_what_was_worked_out_by_hand(db: Database) -> None:
    set_up(db)
    for sql in recipes().values():
        db.execute(sql)
    push(db)
    db.wait_for_own_writes()
    # Whoever reads another query sees it one cycle later, and Spark SQL is evaluated outside the cycle, in turns.
    for name in ANSWERS:
        eventually(lambda name=name: answers(db, name))  # type: ignore[misc]
        check(name, db.invoke(name).table.to_pylist())


def answers(db: Database, name: str) -> bool:
    try:
        check(name, db.invoke(name).table.to_pylist())
    except AssertionError:
        return False
    return True
