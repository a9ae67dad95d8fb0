"""How large a body may be, and the bytes that bodies of all requests may take together in memory.

| body of | at most | counts against the budget |
| --- | --- | --- |
| a request without a known role | 8 KB, within ten seconds | no |
| a statement or a definition | 4 MB, or `body_max_bytes` if that is less | yes |
| a push | `body_max_bytes` | yes |
| a page of the console | 1 MB | frames of its WebSocket |

A request takes its share of the budget as its bytes come. Older requests come first, and the oldest always gets what it asks for:
bodies that fill the budget together would otherwise wait for each other for ever. So at most the budget and one body are in memory.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import insort
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from starlette.types import Message, Receive

from penstock.errors import PenstockError, error

Body: TypeAlias = bytes | bytearray
UNKNOWN_ROLE_MAX_BYTES = 8 << 10
UNKNOWN_ROLE_S = 10.0
STATEMENT_MAX_BYTES = 4 << 20
CONSOLE_MAX_BYTES = 1 << 20


def limited_body(receive: Receive, limit: int = UNKNOWN_ROLE_MAX_BYTES) -> Receive:
    """The messages of a request, up to so many bytes: for handlers that are not ours, or that ask for no role."""
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > limit:
                raise too_large(limit)
        return message

    return limited


def too_large(limit: int) -> PenstockError:
    """The refusal of a body beyond its limit."""
    fixed = limit in (UNKNOWN_ROLE_MAX_BYTES, STATEMENT_MAX_BYTES, CONSOLE_MAX_BYTES)
    hint = "send it in parts" if fixed else "send it in smaller batches, or raise body_max_bytes"
    return error("body_too_large", limit=limit, hint=hint)


class ByteBudget:
    """Bytes that requests may hold together. Used by the event loop only."""

    def __init__(self, limit: int, patience_s: float = 30.0) -> None:
        self.limit = limit
        self.used = 0
        self.patience_s = patience_s
        self._numbers = count()
        self._holders: list[int] = []  # numbers of shares that hold something, the oldest first
        self._waiting: list[tuple[int, int, int, BudgetShare, asyncio.Future[None]]] = []

    def share(self) -> BudgetShare:
        """What one request holds: nothing yet."""
        return BudgetShare(self, next(self._numbers))

    def try_take(self, share: BudgetShare, size: int) -> bool:
        """Whether the share grew at once."""
        older_waits = bool(self._waiting) and self._waiting[0][0] < share.number
        if older_waits or not self._fits(share, size):
            return False
        self._grant(share, size)
        return True

    async def wait(self, share: BudgetShare, size: int) -> None:
        """The share grows when it is its turn; too_busy if that takes too long."""
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (share.number, next(self._numbers), size, share, future))
        try:
            async with asyncio.timeout(self.patience_s):
                await future
        except TimeoutError:
            raise error("too_busy", detail="too many bytes wait to be stored", hint="send again later") from None
        finally:
            if not future.done():
                future.cancel()
            self._admit()

    def give_back(self, share: BudgetShare, size: int) -> None:
        self.used -= size
        share.held -= size
        if share.held == 0:
            self._holders.remove(share.number)
        self._admit()

    def _fits(self, share: BudgetShare, size: int) -> bool:
        is_oldest = not self._holders or share.number <= self._holders[0]
        return self.used + size <= self.limit or is_oldest

    def _grant(self, share: BudgetShare, size: int) -> None:
        if share.held == 0 and size:
            insort(self._holders, share.number)  # a share may be made long before its first byte comes
        self.used += size
        share.held += size

    def _admit(self) -> None:
        while self._waiting:
            _, _, size, share, future = self._waiting[0]
            if not future.done():
                if not self._fits(share, size):
                    return
                self._grant(share, size)
                future.set_result(None)
            heapq.heappop(self._waiting)


@dataclass(slots=True, eq=False)
class BudgetShare:
    """The bytes that one request holds; given back when the block ends."""

    _budget: ByteBudget
    number: int
    held: int = 0

    def try_take(self, size: int) -> bool:
        return self._budget.try_take(self, size)

    async def take(self, size: int) -> None:
        """So many bytes more, at once or when it is this request's turn. All of the budget is the most."""
        size = min(size, self._budget.limit)
        if not self._budget.try_take(self, size):
            await self._budget.wait(self, size)

    def give_back(self, size: int) -> None:
        """So many bytes less, of those it holds."""
        size = min(size, self.held)
        if size:
            self._budget.give_back(self, size)

    def __enter__(self) -> BudgetShare:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back(self.held)
