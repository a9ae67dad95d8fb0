"""Roads and temperatures as they were measured, through Spark: answers are those of pandas."""

from __future__ import annotations

from penstock.database.database import Database
from tests.support.real_series import EXCERPTS, WHOLE, Story


def test_real_series_answer_as_pandas_does(db: Database) -> None:
    """The whole ones where they are, else the excerpts."""
    Story.of_folder(WHOLE if WHOLE.is_dir() else EXCERPTS).tell(lambda: db, db.wait_for_own_writes)
