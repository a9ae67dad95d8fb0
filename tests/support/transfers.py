"""Transfers between accounts: balances and their total as standing queries, and readers who never see the total off zero.

A transfer is one reading of the account that pays: whom, and how much. So it is in an answer as a whole or not at all.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.answers.subscription import Subscription
from penstock.database.database import Database
from penstock.errors import PenstockError

ACCOUNTS = 8
TABLE = (
    "CREATE TABLE accounts (account INT PRIMARY KEY, transfer STREAM (payee INT, amount BIGINT))"
    " WITH (time = 'valid', out_of_order = 'accept')"
)
BALANCES = (
    "CREATE QUERY balances AS SELECT account, SUM(amount) AS balance FROM ("
    "SELECT payee AS account, amount FROM accounts UNION ALL SELECT account, -amount AS amount FROM accounts"
    ") GROUP BY account BEGIN ('2000-01-01') END (NOW);"
    "CREATE QUERY total AS SELECT COALESCE(SUM(balance), 0) AS total FROM balances"
)
"""The same as one query, which reads the stream twice, and its total as a query that reads that one."""
WINDOWS = {"ever": "", "lately": "BEGIN (NOW - 3 SECONDS) END (NOW)"}


def balance_of(account: int, window: str) -> str:
    received = f"SUM(CASE WHEN payee = {account} THEN amount ELSE 0 END)"
    paid = f"SUM(CASE WHEN account = {account} THEN amount ELSE 0 END)"
    return f"SELECT COALESCE({received} - {paid}, 0) AS balance FROM accounts {window}"


def total_of(window: str) -> str:
    """Of all accounts that there are, whether they pay or are paid."""
    known = f"BETWEEN 0 AND {ACCOUNTS - 1}"
    received = f"SUM(CASE WHEN payee {known} THEN amount ELSE 0 END)"
    paid = f"SUM(CASE WHEN account {known} THEN amount ELSE 0 END)"
    return f"SELECT COALESCE({received} - {paid}, 0) AS balance FROM accounts {window}"


def queries() -> dict[str, str]:
    """By name: a balance per account as a query each, their total, and what was paid and received, grouped; in two windows."""
    found = {}
    for word, window in WINDOWS.items():
        found |= {f"balance_{account}_{word}": balance_of(account, window) for account in range(ACCOUNTS)}
        found[f"total_{word}"] = total_of(window)
        for name, key in (("paid", "account"), ("received", "payee")):
            found[f"{name}_{word}"] = (
                f"SELECT {key} AS account, SUM(amount) AS sum FROM accounts GROUP BY {key} {window}"
            )
    return found


def set_up(db: Database) -> None:
    db.execute(TABLE)
    db.execute(f"INSERT INTO accounts VALUES {', '.join(f'({i}, NULL)' for i in range(ACCOUNTS))}")
    db.register(list(queries().items()))


def transfers(chance: random.Random, us: int, count: int) -> pa.Table:
    """Some transfers of about now, a tenth of them late, some to oneself."""
    times = [
        us - (chance.randrange(4_000_000) if chance.random() < 0.1 else chance.randrange(1000)) for _ in range(count)
    ]
    return pa.table(
        {
            "account": pa.array([chance.randrange(ACCOUNTS) for _ in range(count)], pa.int32()),
            "payee": pa.array([chance.randrange(ACCOUNTS) for _ in range(count)], pa.int32()),
            "amount": pa.array([chance.randrange(1, 10**12) for _ in range(count)], pa.int64()),
            "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC")),
        }
    )


@dataclass
class Watcher:
    """Reads everything again and again in threads of its own, and notes what does not add up. Use as a context manager."""

    db: Database
    seen: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._told: list[Subscription] = []
        jobs: list[Callable[[], None]] = [self._ask, *(self._follower(word) for word in WINDOWS)]
        self._threads = [threading.Thread(target=self._guarded, args=(job,), daemon=True) for job in jobs]

    def __enter__(self) -> Watcher:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive(), "a reader hangs"
        for subscription in self._told:
            subscription.close()

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            # Once more after the end, so that the last state was read, too.
            while not self._stop.is_set():
                job()
            job()
        except Exception as failure:
            self.wrong.append(repr(failure))

    def _ask(self) -> None:
        """All queries as of one cycle."""
        last = self.db.standing.feed.last()
        assert last is not None
        try:
            answers = {name: self.db.invoke(name, last.cycle).table.to_pylist() for name in queries()}
        except PenstockError as failure:
            if failure.condition != "cycle_gone":  # cycles went on faster than this reader
                raise
            return
        self.seen["asked"] += 1
        for word in WINDOWS:
            total = sum(answers[f"balance_{account}_{word}"][0]["balance"] for account in range(ACCOUNTS))
            self._check(total, f"balances {word}, cycle {last.cycle}")
            self._check(answers[f"total_{word}"][0]["balance"], f"total {word}, cycle {last.cycle}")
            paid, received = (sum(row["sum"] for row in answers[f"{n}_{word}"]) for n in ("paid", "received"))
            self._check(received - paid, f"paid and received {word}, cycle {last.cycle}")

    def _follower(self, word: str) -> Callable[[], None]:
        """Follows what was paid and received with changes; both are as of the same cycle after each step."""
        told = [self.db.subscribe(f"{name}_{word}", changes=True) for name in ("paid", "received")]
        paid, received = map(Replayed, told)
        self._told += told

        def follow() -> None:
            last = self.db.standing.feed.last()
            assert last is not None
            paid.follow_to(last.cycle)
            received.follow_to(last.cycle)
            if paid.totals and received.totals:
                begin = max(min(paid.totals), min(received.totals))
                for cycle in sorted(c for c in paid.totals.keys() | received.totals.keys() if c >= begin):
                    self.seen["followed"] += 1
                    self._check(received.at(cycle) - paid.at(cycle), f"followed {word}, cycle {cycle}")
                paid.forget()
                received.forget()

        return follow

    def _check(self, total: int, what: str) -> None:
        if total != 0:
            self.wrong.append(f"{what}: off by {total}")


class Replayed:
    """One side's rows, replayed from its changes, with the sum after each cycle."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._rows: Counter[tuple[Any, ...]] = Counter()
        self._cycle = 0
        self._sum = 0
        self.totals: dict[int, int] = {}
        self._waiting: list[tuple[int, list[dict[str, Any]]]] = []

    def follow_to(self, cycle: int) -> None:
        """Take in the events of all cycles up to one; a later one waits for its turn."""
        while True:
            if not self._waiting:
                event = self._subscription.next(0)
                if event is None:
                    return
                self._waiting.append((event.cycle, event.table.to_pylist()))
            if self._waiting[0][0] > cycle:
                return
            at, rows = self._waiting.pop(0)
            self._replay(at, rows)

    def _replay(self, cycle: int, rows: Sequence[dict[str, Any]]) -> None:
        for row in rows:
            key = (row["account"], row["sum"])
            self._rows[key] += 1 if row["op"] == "+" else -1
            assert self._rows[key] in (0, 1), f"cycle {cycle}: {row} does not fit what was told before"
        self._sum = sum(amount * count for (_, amount), count in self._rows.items())
        self.totals[cycle] = self._sum

    def at(self, cycle: int) -> int:
        """The sum after a cycle: that of the last one that told something."""
        return self.totals[max(c for c in self.totals if c <= cycle)]

    def forget(self) -> None:
        """Keep only the newest sum."""
        newest = max(self.totals)
        self.totals = {newest: self.totals[newest]}
