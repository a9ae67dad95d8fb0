"""Guesses of passwords and tokens wait longer and longer; nobody else waits with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.security.guesses import ENTRIES_MAX, FREE_GUESSES, LONGEST_WAIT_S, Guesses, address_key
from penstock.security.users import new_token
from penstock.settings import Settings
from tests.security.conftest import World
from tests.security.test_sessions import sign_in
from tests.server.asgi import Http
from tests.server.fake import FakeDatabase

TOKEN = "t" * 32


class Now:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def server(now: Now) -> Iterator[Http]:
    http = Http(FakeDatabase(), Settings(token=TOKEN))
    http.app.state.context.sessions.guesses.now = now
    yield http
    http.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_each_guess_beyond_the_free_ones_doubles_the_wait(now: Now) -> None:
    guesses = Guesses(now)
    assert [guesses.begin("ada") for _ in range(FREE_GUESSES)] == [0.0] * FREE_GUESSES
    waits = []
    for _ in range(12):
        waits.append(guesses.begin("ada"))
        now.s += waits[-1]
        assert guesses.begin("ada") == 0.0
    assert waits[:4] == [1.0, 2.0, 4.0, 8.0] and waits[-1] == LONGEST_WAIT_S
    assert guesses.begin("bob") == 0.0


def test_asking_while_one_has_to_wait_makes_the_wait_no_longer(now: Now) -> None:
    guesses = Guesses(now)
    for _ in range(FREE_GUESSES):
        guesses.begin("ada")
    assert [guesses.begin("ada") for _ in range(5)] == [1.0] * 5
    now.s += 1.0
    assert guesses.begin("ada") == 0.0


def test_who_was_right_starts_again(now: Now) -> None:
    guesses = Guesses(now)
    for _ in range(FREE_GUESSES):
        guesses.begin("ada")
    guesses.forget("ada")
    assert guesses.begin("ada") == 0.0 and guesses.begin("ada") == 0.0


def test_a_million_guessers_do_not_fill_the_memory(now: Now) -> None:
    guesses = Guesses(now)
    for number in range(ENTRIES_MAX + 100):
        guesses.begin(str(number))
    assert len(guesses.keys()) == ENTRIES_MAX


def test_a_network_of_ipv6_addresses_counts_as_one_guesser() -> None:
    keys = {address_key(f"2001:db8:1:2::{n:x}") for n in range(1, 9)}
    assert len(keys) == 1
    assert address_key("2001:db8:1:3::1") not in keys
    assert address_key("192.0.2.1") != address_key("192.0.2.2")
    assert address_key("::ffff:192.0.2.1") == address_key("192.0.2.1")


def test_a_stranger_cannot_lock_a_user_out(world: World, now: Now) -> None:
    context = world.http.app.state.context
    context.sessions.guesses.now = now
    stranger = Http(world.db, context.settings, peer="127.0.0.9", sessions=context.sessions)  # type: ignore[arg-type]
    answers = [
        stranger.post("/v1/session", json={"user": "ada", "password": "wrong password"}).status_code for _ in range(30)
    ]
    assert answers[0] == 401 and answers[-1] == 429
    assert sign_in(world)[0].status_code == 200
    stranger.close()


def test_one_address_cannot_try_one_password_on_every_user(world: World, now: Now) -> None:
    world.http.app.state.context.sessions.guesses.now = now
    answers = [sign_in(world, f"user{n}", "password1")[0].status_code for n in range(60)]
    assert answers[0] == 401 and answers[-1] == 429


def test_a_wait_says_how_long_it_is(world: World, now: Now) -> None:
    world.http.app.state.context.sessions.guesses.now = now
    for _ in range(FREE_GUESSES):
        assert sign_in(world, password="wrong password")[0].status_code == 401
    answer, _ = sign_in(world)
    assert (answer.status_code, answer.json()["error"]["condition"]) == (429, "rate_limited")
    assert answer.headers["retry-after"] == "1" and "1 second" in answer.json()["error"]["hint"]
    now.s += 1.0
    assert sign_in(world)[0].status_code == 200


def test_wrong_tokens_of_one_address_wait_without_being_looked_up(server: Http) -> None:
    answers = [server.get("/v1/tables", headers=bearer(new_token())).status_code for _ in range(40)]
    assert answers[0] == 401 and answers[-1] == 429
    # A right guess is not answered either, or waiting would be for nothing.
    assert server.get("/v1/tables", headers=bearer(TOKEN)).status_code == 429


def test_a_program_that_was_right_before_does_not_wait_for_a_guesser(server: Http) -> None:
    assert server.get("/v1/tables", headers=bearer(TOKEN)).status_code == 200
    for _ in range(40):
        server.get("/v1/tables", headers=bearer(new_token()))
    assert server.get("/v1/tables", headers=bearer(TOKEN)).status_code == 200


def test_one_wrong_token_sent_again_and_again_is_one_guess(server: Http) -> None:
    wrong = bearer(new_token())
    assert {server.get("/v1/tables", headers=wrong).status_code for _ in range(60)} == {401}
    assert server.get("/v1/tables", headers=bearer(TOKEN)).status_code == 200
