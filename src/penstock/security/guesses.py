"""Guesses of passwords and tokens: each wrong one makes the next of the same guesser wait twice as long.

A guesser is a user name tried from an address, or an address. A stranger elsewhere therefore cannot lock a user out.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from penstock.back_off import BackOff
from penstock.cache import Cache
from penstock.errors import PenstockError, error

# Typing a password wrong a few times costs nothing.
FREE_GUESSES = 5
# Many people may share an address.
FREE_GUESSES_OF_ADDRESS = 20
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
_WAITS = BackOff(FIRST_WAIT_S, LONGEST_WAIT_S)
# A guesser that was quiet for so long starts again.
FORGET_AFTER_S = 900.0
# Beyond so many, the one that has been quiet longest is forgotten.
ENTRIES_MAX = 10_000
# No user has a longer name (`users`); what is remembered of one that was tried stays small.
_NAME_MAX_CHARS = 128
# An IPv6 customer has at least a /64 to choose addresses from.
_IPV6_PREFIX = 64


@dataclass(slots=True)
class _Entry:
    count: int = 0
    at: float = 0.0
    until: float = 0.0


class Guesses:
    """Waits per guesser. Used by the event loop only."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.now = now
        self._entries: Cache[str, _Entry] = Cache(most=ENTRIES_MAX)
        # The tokens that were tried, and whether they were right, by address.
        self._tried: dict[bool, Cache[tuple[str, str], bool]] = {
            right: Cache(most=ENTRIES_MAX) for right in (True, False)
        }

    def begin(self, key: str, free: int = FREE_GUESSES) -> float:
        """0 if the guesser may try now, else how many seconds it has to wait.

        The guess counts as wrong until `forget` or `undo` says otherwise, so that many at the same time count, too.
        """
        now = self.now()
        entry = self._entries.get(key)
        if entry is None or now - entry.at > FORGET_AFTER_S:
            entry = _Entry()
            self._entries.put(key, entry)
        if now < entry.until:
            return entry.until - now
        entry.count += 1
        entry.at = now
        if entry.count >= free:
            entry.until = now + _WAITS.pause_s(entry.count - free + 1)
        return 0.0

    def forget(self, key: str) -> None:
        """The guesser was right."""
        self._entries.remove(key)

    def undo(self, key: str) -> None:
        """The last guess was right, but earlier ones still count: a guesser may have an account of its own."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.count, entry.until = max(entry.count - 1, 0), 0.0

    def begin_token(self, address: str | None, digest: str) -> None:
        """Refuse a token that was not right before, while its address has to wait for wrong ones.

        A token that was right from there is no guess; a wrong one that is sent again is no new guess. A program with an
        old token therefore stops no other program behind the same address.
        """
        key = token_key(address)
        if any(tried.get((key, digest)) for tried in self._tried.values()):
            return
        wait_s = self.begin(key, FREE_GUESSES_OF_ADDRESS)
        if wait_s > 0:
            raise too_many_guesses(wait_s)

    def end_token(self, address: str | None, digest: str, right: bool) -> None:
        """What became of the token."""
        known = (token_key(address), digest)
        if right and self._tried[True].get(known):
            return
        self._tried[not right].remove(known)
        self._tried[right].put(known, True)
        if right:
            self.undo(known[0])

    def keys(self) -> list[str]:
        """The guessers that are remembered."""
        return [key for key, _ in self._entries.items()]


def user_key(user: str, address: str | None) -> str:
    """A user name as it is tried from an address."""
    return f"user {network_of(address)} {user[:_NAME_MAX_CHARS]}"


def address_key(address: str | None) -> str:
    """Everything that is tried from an address."""
    return f"address {network_of(address)}"


def token_key(address: str | None) -> str:
    """The tokens that are tried from an address."""
    return f"token {network_of(address)}"


@lru_cache(4096)
def network_of(address: str | None) -> str:
    """The address, or of an IPv6 address the network that one customer has."""
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return str(address)
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _IPV6_PREFIX), strict=False))


def too_many_guesses(wait_s: float) -> PenstockError:
    """The refusal of a guess that came too soon."""
    seconds = max(1, -int(-wait_s // 1))
    unit = "second" if seconds == 1 else "seconds"
    problem = error("rate_limited", detail="too many wrong guesses", hint=f"wait {seconds} {unit}")
    problem.retry_after_s = seconds
    return problem
