"""The page about the way to a subscriber lists the modules that a commit record really goes through."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import httpx
import pyarrow as pa
import pytest

from penstock.cycle.commits import RESULT_SCHEMA, CommitRecord
from penstock.cycle.offset import Offset
from penstock.cycle.worker import run_task
from penstock.pipeline.engine import Engine
from penstock.views.answer_store import AnswerStore
from penstock.views.feed import CommitFeed, Mark
from penstock.views.follower import Follower
from penstock.views.results import Event
from tests.project.test_internals import INTERNALS, SOURCE, SUBSCRIBER_MODULES_MAX, listed, module_of
from tests.server.live import serving
from tests.support.local_engine import LocalEngine
from tests.support.pipe import Pipe

STATIONS = {f.__code__ for f in (Follower.append, AnswerStore.apply, CommitFeed.wake)}


class Frame:
    """What Spark hands to the engine at the end of a micro-batch."""

    def __init__(self, results: pa.Table) -> None:
        self.toArrow = lambda: results


class CallbackEngine(LocalEngine):
    """Runs tasks without Spark, and commits what they find as Spark does: by the callback of the real engine."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._real = Engine(self.folder, self.settings, self._on_commit)
        self._real.commits = self.commits

    def run(self, start: Offset, end: Offset) -> CommitRecord | None:
        batches = [batch for task in self.tasks(start, end) for batch in run_task(task)]
        self._real._commit_cycle(0, Frame(pa.Table.from_batches(batches, RESULT_SCHEMA)), 0)  # type: ignore[arg-type]
        self._wait_folded()
        return self.commits.last


class CallbackPipe(Pipe):
    def _make_engine(self, *arguments: Any) -> LocalEngine:
        return CallbackEngine(*arguments, clock=self.clock)


class Spine:
    """By cycle, the modules that pass it on. Called by the interpreter for every call and return of a thread."""

    def __init__(self) -> None:
        self.modules: dict[int, set[str]] = defaultdict(set)
        self.watching = False

    def __call__(self, frame: FrameType, what: str, returned: Any) -> None:
        if not self.watching:
            return
        if what == "call" and frame.f_code in STATIONS:
            for caller in callers(frame):
                for held in list(caller.f_locals.values()):
                    if isinstance(held, CommitRecord | Mark):
                        self.modules[held.cycle].add(caller.f_globals["__name__"])
        elif what == "return" and isinstance(returned, Event):
            assert frame.f_back is not None
            for passing in (frame, frame.f_back):
                self.modules[returned.cycle].add(passing.f_globals["__name__"])

    def of(self, cycle: int) -> set[str]:
        return {name.removeprefix("penstock.") for name in self.modules[cycle] if name.startswith("penstock.")}


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


@pytest.fixture
def spine() -> Iterator[Spine]:
    """Threads that start from here on tell it what they call."""
    made = Spine()
    threading.setprofile(made)
    yield made
    threading.setprofile(None)


def in_a_thread(work: Callable[[], object]) -> None:
    """The test's own thread was there before the fixture."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_commit_record_goes_to_its_subscriber_through_the_modules_that_the_page_lists(
    tmp_path: Path, spine: Spine
) -> None:
    """A reading of a plain selection on its way from the callback of a micro-batch to an HTTP client, as it is called.

    A module is on the spine if a function of it passes the cycle on:

    - it has the record or its mark in a variable while the record is handed to the follower, while the answers take
      it in, or while waiting readers are woken, all of them inside of its own call, or
    - it returns the event to its caller, or is the caller that gets it.

    So a helper that a function of the spine calls is not on it (expressions, bitmaps, the selection's view), nor are the
    loops of threads and the web server, which know neither record nor event.
    """
    pipe = CallbackPipe(tmp_path / "data")
    pipe.probes()
    pipe.db.execute("CREATE QUERY high AS SELECT value FROM probes WHERE value > 10")
    pipe.push(11.0)
    pipe.engine.drain()
    with serving(pipe.db, pipe.db.settings) as live:  # type: ignore[arg-type]
        with httpx.stream("GET", f"{live.url}/v1/queries/high/events", timeout=60, trust_env=False) as response:
            events = (json.loads(line[6:]) for line in response.iter_lines() if line.startswith('data: {"cycle"'))
            next(events)
            pipe.push(12.0)
            spine.watching = True
            in_a_thread(pipe.engine.cycle)
            event = next(events)
            spine.watching = False
    pipe.db.stop()
    assert event["rows"] == [{"value": 12.0}]
    found = spine.of(event["cycle"])
    names = listed(INTERNALS / "subscriber.md")
    modules = {module_of(name)[0].relative_to(SOURCE).with_suffix("") for name in names}  # type: ignore[index]
    assert found == {".".join(module.parts) for module in modules}
    assert len(found) <= SUBSCRIBER_MODULES_MAX
