"""A client of the server: the newest verdict of each box, its course, and the decisions that are stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from apps.hazmat.actions import recommend
from apps.hazmat.decision import MORE
from apps.hazmat.statements import INSERT_DECISION, UPDATE_DECISION, WINDOW_MINUTES
from penstock.client import Connection
from penstock.clock import parse_timestamp
from penstock.errors import PenstockError

KEPT_BOXES = 200
PAUSE_S = 0.5
LEAVING_US = (WINDOW_MINUTES - 1) * 60_000_000
"""A box that began longer ago is left as it is: its first bursts leave the window, and what is left of them says less."""
Decision = tuple[str, str, str | None, float | None, float | None]
"""A row of `decisions`: box, verdict, finding and confidence at the decision, and after how many seconds it was made."""


def decision_of(row: dict[str, Any]) -> Decision | None:
    """The first decision about a box, as its verdict says it."""
    if row["verdict"] == MORE:
        return None
    return row["box"], row["verdict"], row["first_finding"], row["first_confidence"], row["after_s"]


@dataclass(slots=True)
class Box:
    """What is known of a box by now. `course` has live seconds with ln M and the safe ratio at each of them."""

    name: str
    row: dict[str, Any]
    course: list[tuple[float, float, float]] = field(default_factory=list)


class Boxes:
    """The boxes of the last while and the decisions about them; safe to share between threads."""

    def __init__(self) -> None:
        self.problem = ""
        """Why nothing comes at the moment, if so."""
        self._boxes: dict[str, Box] = {}
        self._decisions: dict[str, dict[str, Any]] = {}
        self._advice: dict[str, str] = {}
        self._lock = threading.Lock()

    def take(self, row: dict[str, Any]) -> None:
        """A new verdict about a box."""
        with self._lock:
            box = self._boxes.setdefault(row["box"], Box(row["box"], row))
            box.row = row
            if row["live_s"] is not None:
                box.course.append((row["live_s"], row["log_m"], row["log_safe"]))
            known = self._decisions.get(row["box"])
            decision = decision_of(row)
            if decision is not None and (known is None or decision_of(known) != decision):
                self._decisions[row["box"]] = row
            for kept in (self._boxes, self._decisions):
                while len(kept) > KEPT_BOXES:
                    del kept[next(iter(kept))]

    def take_advice(self, finding: str, action: str) -> None:
        """What to do about a finding, from now on."""
        with self._lock:
            self._advice[finding] = action

    def what_to_do(self, row: dict[str, Any]) -> str:
        """The action for what is found in a box by now."""
        with self._lock:
            return self._advice.get(row["finding"]) or recommend(row["finding"] or "")

    def newest(self) -> list[Box]:
        """The newest first."""
        with self._lock:
            return [Box(b.name, b.row, list(b.course)) for b in reversed(self._boxes.values())]

    def decisions(self) -> list[dict[str, Any]]:
        """The verdicts that were decisions, in the order in which they were made; the last ones of them."""
        with self._lock:
            return list(self._decisions.values())


class Follower:
    """Subscribes to `verdicts`, and writes the first decision about each box into `decisions`.

    Bursts of a second may come in different cycles, and after a restart many come late. So the first decision of a
    box may change while they come: then its row is corrected, and says in the end what its bursts say.
    """

    def __init__(self, connection: Connection) -> None:
        self.boxes = Boxes()
        self._url = connection.url
        self._stored: dict[str, Decision] = {}

    def start(self) -> None:
        # Daemons: they wait inside a request that ends with the server.
        for follow in (self._follow_verdicts, self._follow_advice):
            threading.Thread(target=self._again_and_again, args=(follow,), daemon=True).start()

    def _again_and_again(self, follow: Callable[[Connection], None]) -> None:
        """Follow a query from its current answer on, and begin anew after any failure."""
        while True:
            try:
                with Connection(self._url) as connection:
                    follow(connection)
            except PenstockError as problem:
                self.boxes.problem = problem.render()
            time.sleep(PAUSE_S)

    def _follow_verdicts(self, connection: Connection) -> None:
        self._stored = {row["box"]: _stored(row) for row in connection.sql(_SELECT).rows()}
        for row in verdict_rows(connection):
            self.boxes.problem = ""
            self.boxes.take(row)
            self.store(connection, decision_of(row))

    def _follow_advice(self, connection: Connection) -> None:
        for change in connection.subscribe("advice"):
            for row in change.rows:
                self.boxes.take_advice(row["finding"], row["action"])

    def store(self, connection: Connection, decision: Decision | None) -> None:
        """Store a decision, unless it is stored already."""
        if decision is None or self._stored.get(decision[0]) == decision:
            return
        try:
            connection.sql(UPDATE_DECISION if decision[0] in self._stored else INSERT_DECISION, *decision)
        except PenstockError as problem:
            # An INSERT that got no answer may have been done.
            if problem.condition != "unique_violation":
                raise
            connection.sql(UPDATE_DECISION, *decision)
        self._stored[decision[0]] = decision


_SELECT = "SELECT box, verdict, finding, confidence, after_s FROM decisions"


def _stored(row: dict[str, Any]) -> Decision:
    return row["box"], row["verdict"], row["finding"], row["confidence"], row["after_s"]


def verdict_rows(connection: Connection) -> Iterator[dict[str, Any]]:
    """The current verdicts and each new one, of boxes of which all bursts are in the window."""
    for change in connection.subscribe("verdicts", changes=True):
        if change.now is None:
            continue  # no burst has come yet
        oldest = parse_timestamp(change.now) - LEAVING_US
        for row in change.rows:
            if row.get("op", "+") == "+" and parse_timestamp(row["since"]) > oldest:
                yield row


WORDS = {"alarm": "ALARM", "safe": "safe", "more": "measuring", "inspect": "inspect by hand", "fault": "fault"}


def describe(row: dict[str, Any], action: str) -> str:
    """One decision in one line."""
    finding = "" if row["first_finding"] in (None, "none") else f"  {row['first_finding']}"
    after = "" if row["after_s"] is None else f" after {row['after_s']:.0f} s"
    return f"{row['box']}  {WORDS[row['verdict']]}{after}{finding}  {action}"
