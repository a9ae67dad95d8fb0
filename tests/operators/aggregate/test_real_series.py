"""Roads and temperatures as they were measured: what the pipeline answers is what pandas answers."""

from __future__ import annotations

import pytest

from tests.support.pipe import Pipe
from tests.support.real_series import EXCERPTS, WHOLE, Story


def test_excerpts_answer_as_pandas_does_also_after_a_restart(pipe: Pipe) -> None:
    story = Story.of_folder(EXCERPTS)
    assert len(story.frames) == 4
    assert any(not frame.ts.is_monotonic_increasing for frame in story.frames.values()), "one clock goes back"
    lives = iter(range(10))

    def settle() -> None:
        pipe.engine.drain()
        if next(lives) == 2:
            pipe.restart()

    story.tell(lambda: pipe.db, settle)


def test_whole_series_answer_as_pandas_does(pipe: Pipe) -> None:
    if not WHOLE.is_dir():
        pytest.skip(f"the whole series are not in {WHOLE.name}: set PENSTOCK_SERIES to their folder")
    story = Story.of_folder(WHOLE)
    assert len(story.frames) >= 7
    story.tell(lambda: pipe.db, pipe.engine.drain)
