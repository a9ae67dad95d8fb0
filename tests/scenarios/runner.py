"""Behaviour scripts: what a database answers, line by line, on any engine.

A script is a text of commands; a line that begins with a blank goes on with the command before it, `#` is a comment.

| command | what it does |
| --- | --- |
| `sql STATEMENT` | runs a statement |
| `clock 5s` | sets the time of the readings that follow: seconds after ten o'clock |
| `push TABLE id=1 v=2; id=2 v=3 at=4s` | stores readings, with the time of the clock or with their own, which moves the clock on |
| `cycle` | waits until everything that was written before it is in the answers |
| `rows QUERY [AS OF CYCLE mark]` | shows an answer, its rows sorted |
| `changes QUERY` | shows what has changed in it since the last `changes`; subscribes the first time |
| `final QUERY` | shows the rows that have become final since the last `final`; subscribes the first time |
| `mark NAME` | remembers the last cycle for `AS OF CYCLE` |
| `explain SELECT ...` or `explain QUERY name` | shows the first line of the plan |
| `recipe TITLE` | runs the SQL of a section of `docs/howto/recipes.md`, up to its first SELECT |
| `restart` | ends the database and opens its folder again, where the engine can |

Lines behind `--|` are the output that is expected. `spark:` before a command marks one that needs Spark SQL: an engine
without Spark leaves it out. Tables have valid time, so that no answer depends on the wall clock.
PENSTOCK_UPDATE_GOLDEN=1 writes the outputs of the engine in this process anew.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from difflib import unified_diff
from pathlib import Path
from typing import Any, Protocol

from penstock.answers.subscription import Subscription
from penstock.database.database import Database
from penstock.errors import PenstockError

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
TEN = datetime(2025, 11, 14, 10, tzinfo=UTC)
TEN_US = int(TEN.timestamp()) * 1_000_000
MARK, ON_SPARK = "--|", "spark:"
PATIENCE_S = 120.0
RECIPES = Path(__file__).parents[2] / "docs" / "howto" / "recipes.md"


class Engine(Protocol):
    """What a script is run on."""

    db: Database
    has_spark: bool

    def cycle(self) -> None:
        """Return when everything that was written before is in the answers."""

    def set_clock(self, us: int) -> None:
        """Move the clock of the database, if it is one that a test moves."""

    def restart(self) -> bool:
        """Open the folder again; False if that is left out."""


class Runner:
    """Runs the commands of one script and keeps what is between them: the clock, marks and subscriptions."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._now_s = 0.0
        self._marks: dict[str, int] = {}
        self._subscriptions: dict[str, Subscription] = {}

    def written(self, script: str) -> str:
        """The script with the outputs of this engine."""
        out: list[str] = []
        for command, expected in commands(script):
            out.append(command)
            text = "\n".join(line for line in command.splitlines() if not line.startswith("#")).strip()
            if not text.startswith(ON_SPARK):
                out += self._run(text) if text else []
            elif self._engine.has_spark:
                out += self._run_on_spark(text.removeprefix(ON_SPARK).strip(), expected)
            else:
                out += expected
        return "\n".join(out) + "\n"

    def close(self) -> None:
        for subscription in self._subscriptions.values():
            subscription.close()
        self._subscriptions.clear()

    def _run_on_spark(self, command: str, expected: list[str]) -> list[str]:
        """Spark evaluates standing queries outside the cycle, when there is time: an answer is waited for."""
        deadline_s = time.monotonic() + PATIENCE_S
        while (
            (found := self._run(command)) != expected and command.startswith("rows") and time.monotonic() < deadline_s
        ):
            time.sleep(0.05)
        return found

    def _run(self, command: str) -> list[str]:
        word, _, rest = command.partition(" ")
        try:
            lines = list(getattr(self, f"_{word}")(" ".join(rest.split())))
        except PenstockError as failure:
            lines = [f"ERROR {failure.condition}: {failure.message}"]
        return [f"{MARK} {line}".rstrip() for line in lines]

    def _sql(self, statement: str) -> list[str]:
        table = self._engine.db.execute(statement).table
        return [] if "status" in table.column_names else lines_of(table)

    def _recipe(self, title: str) -> list[str]:
        _, _, section = RECIPES.read_text().partition(f"\n## {title}\n")
        assert section, f"recipes.md has no section {title}"
        block = section.partition("\n## ")[0].partition("```sql\n")[2].partition("```")[0]
        for statement in block.split(";\n"):
            if statement.strip() and not statement.lstrip().startswith("SELECT"):
                self._engine.db.execute(statement)
        return []

    def _clock(self, time: str) -> list[str]:
        self._now_s = seconds(time)
        return []

    def _push(self, rest: str) -> Iterator[str]:
        table, _, given = rest.partition(" ")
        readings = [dict(part.split("=") for part in reading.split()) for reading in given.split(";")]
        for reading in readings:
            at_s = seconds(reading.pop("at")) if "at" in reading else self._now_s
            self._now_s = max(at_s, self._now_s)
            reading["ts"] = (TEN + timedelta(seconds=at_s)).isoformat()
        self._engine.set_clock(TEN_US + round(self._now_s * 1_000_000))
        receipt = self._engine.db.push(table, [{k: value_of(v) for k, v in r.items()} for r in readings])
        yield from (f"refused {r.index + 1}: {r.condition}" for r in receipt.refused)

    def _cycle(self, _: str) -> list[str]:
        self._engine.cycle()
        return []

    def _mark(self, name: str) -> list[str]:
        self._marks[name] = self._engine.db.standing.store.cycle
        return []

    def _rows(self, rest: str) -> list[str]:
        name, _, mark = rest.partition(" AS OF CYCLE ")
        return lines_of(self._engine.db.invoke(name, self._marks[mark] if mark else None).table)

    def _changes(self, name: str) -> list[str]:
        if name not in self._subscriptions:
            self._subscriptions[name] = self._engine.db.subscribe(name, changes=True)
        net: Counter[str] = Counter()
        while event := self._subscriptions[name].next(0):
            for op, *row in (tuple(r.values()) for r in event.table.to_pylist()):
                net[line_of(row)] += 1 if op == "+" else -1
        sides = [(row, "+" if n > 0 else "-", abs(n)) for row, n in net.items() if n]
        return [f"{op} {row}" for row, op, n in sorted(sides) for _ in range(n)]

    def _final(self, name: str) -> list[str]:
        if (key := f"{name} FINAL") not in self._subscriptions:
            self._subscriptions[key] = self._engine.db.subscribe(name, final=True)
        found: list[str] = []
        while event := self._subscriptions[key].next(0):
            found += lines_of(event.table)
        return sorted(found)

    def _explain(self, what: str) -> list[str]:
        return self._engine.db.execute(f"EXPLAIN {what}").table.column(0).to_pylist()[0].splitlines()[:1]

    def _restart(self, _: str) -> list[str]:
        self.close()
        self._engine.restart()
        return []


def commands(script: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the comments and blank lines before it, and its expected output."""
    lines: list[str] = []
    output: list[str] = []
    begun = False
    for line in script.splitlines():
        goes_on = line[:1].isspace() and begun and not output
        if line.startswith(MARK):
            output.append(line)
            continue
        if begun and not goes_on:
            yield "\n".join(lines), output
            lines, output, begun = [], [], False
        lines.append(line)
        begun = begun or bool(line.strip() and not line.startswith("#"))
    yield "\n".join(lines), output


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


def value_of(text: str) -> Any:
    """A value of a reading as the script writes it."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return None if text == "NULL" else float(text) if "." in text else int(text)
    except ValueError:
        return text


def shown(value: Any) -> str:
    if isinstance(value, datetime):
        return value.strftime("%H:%M:%S" + (".%f" if value.microsecond else ""))
    return "NULL" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def line_of(row: Any) -> str:
    return " | ".join(map(shown, row))


def lines_of(table: Any) -> list[str]:
    return sorted(line_of(row.values()) for row in table.to_pylist())


def check(script: Path, engine: Engine) -> None:
    """Run a script and compare; or write its outputs anew."""
    runner = Runner(engine)
    try:
        text = script.read_text()
        found = runner.written(text)
    finally:
        runner.close()
    if os.environ.get("PENSTOCK_UPDATE_GOLDEN"):
        script.write_text(found)
    difference = "\n".join(unified_diff(text.splitlines(), found.splitlines(), "expected", "found", n=6, lineterm=""))
    assert not difference, difference
