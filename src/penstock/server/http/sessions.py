"""Sessions of the page: a random name in a cookie, and behind it a user or a token, in memory only.

A restart of the server ends all sessions. What a session may do is looked up at each request, so that a dropped
user, a new password or a lower role counts at once.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import replace

from penstock.clock import SECOND, Clock
from penstock.errors import error
from penstock.security.caller import Caller
from penstock.security.guesses import FREE_GUESSES_OF_ADDRESS, Guesses, address_key, too_many_guesses, user_key
from penstock.security.users import Users, as_caller, token_digest
from penstock.server.http.thread_pools import Pool
from penstock.settings import Settings

SESSIONS_MAX = 10_000
_THREADS = 2
_WAITING_MAX = 20


class Sessions:
    """Used by the event loop only; hashing runs in two threads of its own."""

    def __init__(self, users: Users, settings: Settings, clock: Clock | None = None) -> None:
        self._users = users
        self.guesses = Guesses()
        self._clock = clock or users.clock
        self.lifetime_s = settings.session_hours * 3600
        # Browsers keep one cookie per name for all ports of a host; two servers must not sign each other out.
        self.cookie = f"penstock_session_{settings.port}"
        self._found: OrderedDict[str, tuple[Caller, int]] = OrderedDict()
        self._pool = Pool("sign-in", _THREADS, _WAITING_MAX)

    async def sign_in(self, user: str | None, password: str, address: str | None) -> Caller:
        """The caller with this password, or unauthorized. Without a user the password is a token."""
        caller = self.by_token(password, address) if user is None else await self._by_password(user, password, address)
        if caller is None:
            raise error("unauthorized", detail="no user has this name and password, or there is no such token")
        return replace(caller, via="session", address=address)

    def by_token(self, token: str, address: str | None) -> Caller | None:
        """The caller that has this token, or None. Wrong ones are guesses."""
        digest = token_digest(token)
        self.guesses.begin_token(address, digest)
        caller = self._users.by_digest(digest)
        self.guesses.end_token(address, digest, caller is not None)
        return caller

    async def _by_password(self, user: str, password: str, address: str | None) -> Caller | None:
        mine, shared = user_key(user, address), address_key(address)
        wait_s = self.guesses.begin(mine) or self.guesses.begin(shared, FREE_GUESSES_OF_ADDRESS)
        if wait_s > 0:
            raise too_many_guesses(wait_s)
        found = await self._pool.run(self._users.by_password, user, password)
        if found is None:
            return None
        self.guesses.forget(mine)
        self.guesses.undo(shared)
        return as_caller(found)

    def begin(self, caller: Caller) -> str:
        """The secret name of a new session."""
        name = secrets.token_urlsafe(32)
        key = token_digest(name)
        self._found[key] = (replace(caller, session=key), self._clock.now_us() + self.lifetime_s * SECOND)
        while len(self._found) > SESSIONS_MAX:
            self._found.popitem(last=False)
        return name

    def ends_us(self, name: str) -> int | None:
        """When a session will end; None if there is none."""
        found = self._found.get(token_digest(name))
        return None if found is None else found[1]

    def find(self, name: str) -> Caller | None:
        """The caller of a session, with its present role; None if the session ended or its user may not sign in any more."""
        key = token_digest(name)
        found = self._found.get(key)
        if found is None:
            return None
        caller, ends_us = found
        now = self._users.still(caller) if ends_us > self._clock.now_us() else None
        if now is None:
            del self._found[key]
        return now

    def check(self, caller: Caller) -> None:
        """Refuse a caller with a session that has ended since: a stream may be open for days."""
        if caller.session is None:
            return
        found = self._found.get(caller.session)
        if found is None or found[1] <= self._clock.now_us():
            raise error("unauthorized", detail="the session has ended", hint="sign in again")

    def end(self, name: str) -> None:
        self._found.pop(token_digest(name), None)

    def close(self) -> None:
        self._pool.close()
