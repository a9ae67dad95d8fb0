"""Ordinary tables in stories: rows that come, change and go between readings, and what questions say about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from tests.oracle.joins.world import Combination, Row

FOREVER = 2**62
COLUMNS = "(id INT PRIMARY KEY, k INT, level INT, name TEXT)"


@dataclass
class OrdinaryTable:
    """Every version of every row, with the moments from when and until when it stood."""

    name: str
    versions: list[tuple[Row, int, int]] = field(default_factory=list)

    def alive(self, moment: int) -> Iterator[Row]:
        return (row for row, born, died in self.versions if born <= moment < died)

    def change(self, random: Random, moment: int) -> str:
        """Some change at a moment, and the statement that says it."""
        now = {int(str(row["id"])): row for row in self.alive(moment)}
        kind = random.choice(["insert", "insert", "update", "delete", "several"]) if now else "insert"
        if kind == "insert" and len(now) < 8:
            row = _row(random, next(i for i in range(1, 10) if i not in now))
            self.versions.append((row, moment, FOREVER))
            return f"INSERT INTO {self.name} VALUES ({', '.join(_text(v) for v in row.values())})"
        if kind in ("insert", "update"):
            chosen = random.choice(list(now))
            row = _row(random, chosen)
            self._end([chosen], moment)
            self.versions.append((row, moment, FOREVER))
            assigned = ", ".join(f"{n} = {_text(v)}" for n, v in row.items() if n != "id")
            return f"UPDATE {self.name} SET {assigned} WHERE id = {chosen}"
        least = random.choice([1, 2, 3])
        gone = [i for i in now if i <= least]
        if kind == "several":
            self._end(gone, moment)
            self.versions += [({**now[i], "level": 2}, moment, FOREVER) for i in gone]
            return f"UPDATE {self.name} SET level = 2 WHERE id <= {least}"
        self._end(gone, moment)
        return f"DELETE FROM {self.name} WHERE id <= {least}"

    def _end(self, ids: list[int], moment: int) -> None:
        self.versions = [
            (row, born, moment if died == FOREVER and row["id"] in ids else died) for row, born, died in self.versions
        ]


def _row(random: Random, number: int) -> Row:
    k, level = random.choice([1, 1, 2, 3, None]), random.choice([0, 1, 2, 3, None])
    return {"id": number, "k": k, "level": level, "name": random.choice(["x1", "x2", "o'clock", None])}


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@dataclass
class TableUse:
    """One ordinary table of a question: in FROM, inner or LEFT JOIN, or asked about by IN, EXISTS or NOT EXISTS."""

    table: OrdinaryTable
    alias: str
    kind: str  # inner, left, in, exists, not exists
    conditions: list[str]
    holds: Callable[[Combination, dict[str, Row]], bool]
    asks: str = ""  # the condition of WHERE, where the table is not in FROM

    @property
    def in_from(self) -> bool:
        return self.kind in ("inner", "left")

    @property
    def from_item(self) -> str:
        """How it follows the streams in FROM."""
        source = f"{self.table.name} {self.alias}"
        if self.kind == "left":
            return f" LEFT JOIN {source} ON {' AND '.join(self.conditions) or 'TRUE'}"
        return f", {source}" if self.in_from else ""

    @property
    def where(self) -> list[str]:
        return self.conditions if self.kind == "inner" else [self.asks] if self.asks else []

    @property
    def shown(self) -> list[str]:
        return [f"{self.alias}.{c} AS {self.alias}_{c}" for c in ("id", "level", "name")] if self.in_from else []


def with_tables(
    uses: list[TableUse], combination: Combination, moment: int, known: dict[str, Row]
) -> Iterator[dict[str, Row]]:
    """Every choice of rows, one for each table of FROM, that stands at the moment and satisfies everything."""
    if not uses:
        yield known
        return
    use, *others = uses
    found = [{**known, use.alias: row} for row in use.table.alive(moment)]
    found = [rows for rows in found if use.holds(combination, rows)]
    if use.kind == "left" and not found:
        found = [{**known, use.alias: dict.fromkeys(("id", "k", "level", "name"))}]
    if not use.in_from:
        found = [known] if bool(found) == (use.kind != "not exists") else []
    for rows in found:
        yield from with_tables(others, combination, moment, rows)


def make_uses(random: Random, tables: list[OrdinaryTable], aliases: tuple[str, ...]) -> list[TableUse]:
    uses = []
    for number in range(random.choice([1, 1, 2])):
        before = uses[0].alias if uses and uses[0].kind == "inner" else None
        uses.append(_use(random, random.choice(tables), f"z{number}", aliases, before))
    return sorted(uses, key=lambda use: (use.kind != "inner", use.kind != "left"))


def _use(random: Random, table: OrdinaryTable, alias: str, aliases: tuple[str, ...], before: str | None) -> TableUse:
    """Looked up by one stream, by two, by its name, by another table's row; or compared, or not tied at all."""
    texts: list[str] = []
    tests: list[Callable[[Combination, dict[str, Row]], bool]] = []
    i, j = random.sample(range(len(aliases)), 2) if len(aliases) > 1 else (0, 0)
    a, b = aliases[i], aliases[j]
    kind = random.choice(["one", "one", "both", "text", "compared", "chain" if before else "one", "free"])
    asked = random.choice(["inner", "inner", "left", "in", "exists", "not exists"])
    if kind in ("one", "both"):
        texts.append(f"{alias}.k = {a}.k")
        tests.append(lambda c, z: _equal(z[alias]["k"], c[i]["k"]))
    if kind == "both":
        texts.append(f"{b}.sensor = {alias}.k")
        tests.append(lambda c, z: _equal(z[alias]["k"], c[j]["sensor"]))
    if kind == "text":
        texts.append(f"{alias}.name = {a}.tag")
        tests.append(lambda c, z: _equal(z[alias]["name"], c[i]["tag"]))
    if kind == "compared":
        texts.append(f"{alias}.level + 0.5 < {a}.v + {b}.v")
        tests.append(
            lambda c, z: (
                None not in (z[alias]["level"], c[i]["v"], c[j]["v"])
                and z[alias]["level"] + 0.5 < c[i]["v"] + c[j]["v"]
            )  # type: ignore[operator]
        )
    if kind == "chain":
        texts.append(f"{before}.level = {alias}.id")
        tests.append(lambda c, z: _equal(z[str(before)]["level"], z[alias]["id"]))
    if kind == "free":  # with all of its rows a story has more answers than a test has time
        texts.append(f"{alias}.id <= 2")
        tests.append(lambda c, z: z[alias]["id"] <= 2)  # type: ignore[operator]
    if random.random() < 0.5:
        texts.append(f"{alias}.level > 0")
        tests.append(lambda c, z: z[alias]["level"] is not None and z[alias]["level"] > 0)  # type: ignore[operator]

    def holds(combination: Combination, rows: dict[str, Row]) -> bool:
        return all(test(combination, rows) for test in tests)

    asks = ""
    if asked == "in":
        tests.append(lambda c, z: _equal(z[alias]["id"], c[j]["sensor"]))
        asks = f"{b}.sensor IN (SELECT {alias}.id FROM {table.name} {alias}{_where(texts)})"
    elif asked == "not exists" and kind in ("both", "compared", "free"):
        # Neither side may be unknown, which both k can be.
        tests.append(lambda c, z: None in (z[alias]["k"], c[i]["k"]) or z[alias]["k"] == c[i]["k"])
        asks = f"{a}.k NOT IN (SELECT {alias}.k FROM {table.name} {alias}{_where(texts)})"
    elif asked in ("exists", "not exists"):
        asks = f"{asked.upper()} (SELECT 1 FROM {table.name} {alias}{_where(texts)})"
    return TableUse(table, alias, asked, texts, holds, asks)


def _where(texts: list[str]) -> str:
    return f" WHERE {' AND '.join(texts)}" if texts else ""


def _equal(left: object, right: object) -> bool:
    return left is not None and left == right
