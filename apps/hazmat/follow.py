"""A client of the server: the newest verdict of each box, its course, and the decisions that are stored."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

from apps.hazmat.decision import MORE
from apps.hazmat.statements import INSERT_DECISION
from penstock.client import Connection
from penstock.errors import PenstockError

KEPT_BOXES = 200


@dataclass(slots=True)
class Box:
    """What is known of a box by now. `course` has live seconds with ln M and the safe ratio at each of them."""

    name: str
    row: dict[str, Any]
    course: list[tuple[float, float, float]] = field(default_factory=list)
    decided: bool = False


class Boxes:
    """The boxes of the last while and the decisions about them; safe to share between threads."""

    def __init__(self) -> None:
        self.problem = ""
        """Why nothing more comes, if so."""
        self._boxes: dict[str, Box] = {}
        self._decisions: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def take(self, row: dict[str, Any]) -> bool:
        """A new verdict about a box; whether it is the first one that is a decision."""
        with self._lock:
            box = self._boxes.setdefault(row["box"], Box(row["box"], row))
            box.row = row
            if row["live_s"] is not None:
                box.course.append((row["live_s"], row["log_m"], row["log_safe"]))
            new = row["verdict"] != MORE and not box.decided
            if new:
                box.decided = True
                self._decisions = [*self._decisions[1 - KEPT_BOXES :], row]
            while len(self._boxes) > KEPT_BOXES:
                del self._boxes[next(iter(self._boxes))]
        return new

    def newest(self) -> list[Box]:
        """The newest first."""
        with self._lock:
            return [Box(b.name, b.row, list(b.course), b.decided) for b in reversed(self._boxes.values())]

    def decisions(self) -> list[dict[str, Any]]:
        """In the order in which they were made; the last ones of them."""
        with self._lock:
            return list(self._decisions)


class Follower:
    """Subscribes to `verdicts`, and writes the first decision about each box into `decisions`."""

    def __init__(self, connection: Connection) -> None:
        self.boxes = Boxes()
        self._url = connection.url
        self._stored = {row["box"] for row in connection.sql("SELECT box FROM decisions").rows()}

    def start(self) -> None:
        # A daemon: it waits inside a request that ends with the server.
        threading.Thread(target=self._follow, name="verdicts", daemon=True).start()

    def _follow(self) -> None:
        try:
            with Connection(self._url) as connection:
                for change in connection.subscribe("verdicts", changes=True):
                    for row in change.rows:
                        if row.get("op", "+") == "+" and self.boxes.take(row):
                            self._store(connection, row)
        except PenstockError as problem:
            self.boxes.problem = problem.render()  # the server has stopped, or the query was dropped

    def _store(self, connection: Connection, row: dict[str, Any]) -> None:
        """Unless it was stored before a restart."""
        if row["box"] not in self._stored:
            self._stored.add(row["box"])
            values = [row[column] for column in ("box", "verdict", "finding", "confidence", "after_s")]
            connection.sql(INSERT_DECISION, *values)


WORDS = {"alarm": "ALARM", "safe": "safe", "more": "measuring", "inspect": "inspect by hand", "fault": "fault"}


def describe(row: dict[str, Any]) -> str:
    """One decision in one line."""
    finding = "" if row["finding"] in (None, "none") else f"  {row['finding']}"
    after = "" if row["after_s"] is None else f" after {row['after_s']:.0f} s"
    return f"{row['box']}  {WORDS[row['verdict']]}{after}{finding}  {row.get('action') or ''}".rstrip()
