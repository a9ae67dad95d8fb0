"""The statements that run right now: which of them may work, and which caller sees and ends them.

A statement that answers from what is kept runs under a light turn. One that reads the log or asks Spark takes a heavy
turn: `statements_max` of them run, `statements_per_user` of one user, and a bounded number waits.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

from penstock.cancellation import Cancellation, cancelled_by, current_cancellation
from penstock.catalog.secrets import shown_statement
from penstock.clock import Clock
from penstock.errors import error
from penstock.security.caller import Caller
from penstock.settings import Settings

TEXT_MAX_CHARS = 200
TIMEOUT_MAX_S = 3_600.0
# As many threads as compete for the interpreter; more would only make cycles wait for it.
LIGHT_MAX = 8
WAITING_MAX = 32
WAITING_PER_USER = 8

Turn = Literal["none", "light", "heavy"]


@dataclass(slots=True, eq=False)
class RunningStatement:
    """One running statement. `owner` is compared with a caller's owner; `user` is a name for display.

    `limited`: it counts towards its owner's limit.
    """

    cancellation: Cancellation
    owner: str
    user: str
    limited: bool
    timeout_s: float
    text: str
    started_us: int
    turn: Turn = "none"
    waits: bool = False

    @property
    def id(self) -> str:
        return self.cancellation.id

    def facts(self) -> dict[str, Any]:
        """The statement as a row of penstock.statements."""
        state = "stopping" if self.cancellation.stopped else "waiting" if self.waits else "running"
        return {
            "id": self.id,
            "owner": self.user,
            "state": state,
            "place": self.cancellation.place,
            "started": self.started_us,
            "left_s": self.cancellation.left_s(),
            "text": self.text,
        }


_current: ContextVar[RunningStatement | None] = ContextVar("penstock_statement", default=None)


def is_limited(caller: Caller) -> bool:
    """Whether a caller has a share of its own; on a server without users there are no shares."""
    return caller.user is not None or caller.credential is not None


def owner_of(caller: Caller) -> str:
    """The key by which statements are counted together: one user, or one token without a user."""
    if caller.user is not None:
        return f"user {caller.user}"
    return caller.credential or f"name {caller.name}"


class RunningStatements:
    """The statements of one database. Thread-safe."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._changed = threading.Condition()
        self._statements: dict[str, RunningStatement] = {}
        self._queue: list[RunningStatement] = []  # of those that wait for a heavy turn, the first to come first
        self._closed = False

    # -- running

    @contextmanager
    def enter(self, text: str, caller: Caller) -> Iterator[RunningStatement]:
        """One statement or script, for as long as the block runs. Inside another one it is part of that."""
        outer = _current.get()
        if outer is not None:
            yield outer
            return
        cancellation = current_cancellation() or Cancellation()
        statement = RunningStatement(
            cancellation,
            owner_of(caller),
            caller.name,
            is_limited(caller),
            self._timeout(cancellation.timeout_s, caller),
            shortened(text),
            self._clock.now_us(),
        )
        cancellation.limit(statement.timeout_s)
        with self._changed:
            if self._closed:
                raise error("not_ready", detail="the server is stopping")
            self._statements[statement.id] = statement
        token = _current.set(statement)
        wake = cancellation.on_stop(self._wake)
        try:
            with cancelled_by(cancellation):
                cancellation.check()
                yield statement
        finally:
            wake()
            _current.reset(token)
            with self._changed:
                self._leave_turn(statement)
                del self._statements[statement.id]
                self._changed.notify_all()

    def _timeout(self, asked_s: float | None, caller: Caller) -> float:
        usual = max(1.0, float(self._settings.statement_timeout_s))
        if asked_s is None:
            return usual
        most = max(usual, TIMEOUT_MAX_S) if caller.role == "admin" else usual
        if not 0 < asked_s <= most:
            hint = "an admin may ask for more" if 0 < asked_s <= TIMEOUT_MAX_S else None
            raise error("invalid_parameter", detail=f"timeout_s is more than 0 and at most {most:g}", hint=hint)
        return asked_s

    def next_step(self, text: str) -> None:
        """The current script comes to its next statement, which has the whole time again."""
        statement = _current.get()
        if statement is not None:
            statement.text = shortened(text)
            statement.cancellation.check()
            statement.cancellation.limit(statement.timeout_s)

    @contextmanager
    def turn(self, turn: Literal["light", "heavy"]) -> Iterator[None]:
        """Let the current statement work, once one more may.

        `light`: it needs the interpreter, and not much more. `heavy`: it reads the log or asks Spark; too_busy if too many wait.
        """
        statement = _current.get()
        if statement is None or statement.turn in (turn, "heavy"):
            yield
            return
        with self._changed:
            if turn == "light":
                self._wait(statement, lambda: self._may_take(turn, statement))
            else:
                self._leave_turn(statement)
                self._wait_in_queue(statement)
            statement.turn = turn
        try:
            yield
        finally:
            with self._changed:
                self._leave_turn(statement)

    def _leave_turn(self, statement: RunningStatement) -> None:
        statement.turn = "none"
        self._changed.notify_all()

    def _may_take(self, turn: Turn, statement: RunningStatement) -> bool:
        """Whether one more statement may run, and one more of its owner."""
        taken = Counter(s.owner for s in self._statements.values() if s.turn == turn)
        if taken.total() >= (LIGHT_MAX if turn == "light" else self._settings.statements_max):
            return False
        return not statement.limited or taken[statement.owner] < self._settings.statements_per_user

    def _wait_in_queue(self, statement: RunningStatement) -> None:
        """Wait until it is the first in the queue that may run: a user with enough of them holds up no other user."""
        if not self._may_take("heavy", statement):
            self._check_queue(statement)
        self._queue.append(statement)
        try:
            self._wait(
                statement, lambda: next((s for s in self._queue if self._may_take("heavy", s)), None) is statement
            )
        finally:
            self._queue.remove(statement)
            self._changed.notify_all()

    def _check_queue(self, statement: RunningStatement) -> None:
        own = sum(s.owner == statement.owner for s in self._queue)
        if len(self._queue) < WAITING_MAX and (not statement.limited or own < WAITING_PER_USER):
            return
        whose = "of this user " if own >= WAITING_PER_USER and statement.limited else ""
        detail = f"{own if whose else len(self._queue)} statements {whose}wait already"
        hint = "SHOW STATEMENTS lists them; CANCEL STATEMENT 'id' ends one"
        raise error("too_busy", detail=detail, hint=hint)

    def _wait(self, statement: RunningStatement, until: Callable[[], bool]) -> None:
        """Wait for a turn. Called under the lock, which is released while it waits."""
        if until():
            return
        statement.waits = True
        try:
            while not until():
                if statement.cancellation.stopped:
                    raise statement.cancellation.failure()
                left = statement.cancellation.left_s()
                if left is not None and left <= 0:
                    detail = f"the statement waited {statement.timeout_s:g} s for its turn"
                    hint = "SHOW STATEMENTS lists those that run; CANCEL STATEMENT 'id' ends one"
                    raise error("too_busy", detail=detail, hint=hint)
                self._changed.wait(left)
        finally:
            statement.waits = False

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # -- seeing and ending

    def visible(self, caller: Caller) -> list[dict[str, Any]]:
        """Rows of the statements that a caller may see: its own, all for an admin, the oldest first."""
        with self._changed:
            return [s.facts() for s in self._statements.values() if _may_see(caller, s)]

    def cancel(self, statement_id: str, caller: Caller) -> None:
        """End one that the caller may see; another's is answered as one that does not exist."""
        with self._changed:
            found = self._statements.get(statement_id)
        if found is None or not _may_see(caller, found):
            raise error("statement_not_found", statement=shortened(statement_id), hint="SHOW STATEMENTS lists them")
        found.cancellation.cancel(f"the statement was cancelled by {caller.name}")

    def close(self) -> None:
        """End all of them, and refuse new ones: the server stops."""
        with self._changed:
            self._closed = True
            left = list(self._statements.values())
        for statement in left:
            statement.cancellation.cancel("the server is stopping")


def _may_see(caller: Caller, statement: RunningStatement) -> bool:
    return caller.role == "admin" or owner_of(caller) == statement.owner


def shortened(text: str) -> str:
    """The beginning of a text on one line, without secrets: admins see the statements of others."""
    words = " ".join(shown_statement(text[: 4 * TEXT_MAX_CHARS]).split())
    return words if len(words) <= TEXT_MAX_CHARS else words[: TEXT_MAX_CHARS - 1] + "…"
