"""Signing in on the page: a cookie that scripts and other sites cannot use."""

from __future__ import annotations

from http.cookies import SimpleCookie

import httpx
import pytest

from penstock.security.guesses import FREE_GUESSES
from tests.security.conftest import World

HOST = "127.0.0.1:8470"
OURS = {"Origin": f"http://{HOST}"}
THEIRS = {"Origin": "http://evil.example"}
CHANGE = {"sql": "CREATE QUERY q AS SELECT value FROM probes"}


def sign_in(world: World, user: str = "ada", password: str = "ada's secret") -> tuple[httpx.Response, dict[str, str]]:
    answer = world.http.post("/v1/session", json={"user": user, "password": password})
    cookie = SimpleCookie(answer.headers.get("set-cookie", ""))
    return answer, {"Cookie": "; ".join(f"{name}={morsel.value}" for name, morsel in cookie.items())}


def test_whoever_signs_in_gets_a_cookie_that_is_closed_to_scripts_and_other_sites(world: World) -> None:
    answer, cookie = sign_in(world)
    assert answer.json() | {"expires": None} == {"user": "ada", "role": "write", "required": True, "expires": None}
    assert answer.json()["expires"].endswith("Z")
    flags = answer.headers["set-cookie"].lower()
    assert "httponly" in flags and "samesite=strict" in flags and "path=/" in flags and "max-age=43200" in flags
    assert world.http.get("/v1/tables", headers=cookie).status_code == 200
    assert world.http.get("/v1/session", headers=cookie).json()["user"] == "ada"


def test_a_change_by_cookie_has_to_come_from_our_own_page(world: World) -> None:
    _, cookie = sign_in(world)
    for foreign in ({}, THEIRS, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        answer = world.http.post("/v1/sql", json=CHANGE, headers={**cookie, **foreign})
        assert answer.status_code == 403, foreign
    assert world.http.get("/v1/tables", headers={**cookie, **THEIRS}).status_code == 403
    assert world.http.request("DELETE", "/v1/session", headers={**cookie, **THEIRS}).status_code == 403
    assert world.http.post("/v1/sql", json=CHANGE, headers={**cookie, **OURS}).status_code == 200
    fetched = {**cookie, "Sec-Fetch-Site": "same-origin"}
    assert world.http.post("/v1/sql", json={"sql": "DROP QUERY q"}, headers=fetched).status_code == 200
    # A form of another site can only send types that a browser does not ask about first.
    form = {**cookie, **OURS, "Content-Type": "text/plain"}
    assert world.http.post("/v1/sql", content=b'{"sql": "DROP QUERY hot"}', headers=form).status_code == 415


def test_a_wrong_password_is_refused_the_same_way_for_known_and_unknown_users(world: World) -> None:
    known, unknown = (sign_in(world, user, "wrong password")[0] for user in ("ada", "nobody"))
    assert known.status_code == unknown.status_code == 401
    assert known.json() == unknown.json()
    assert "set-cookie" not in known.headers


def test_too_many_attempts_are_refused_even_with_the_right_password(world: World) -> None:
    world.http.app.state.context.sessions.guesses.now = lambda: 0.0  # no second passes, however slow the machine
    for _ in range(FREE_GUESSES):
        assert sign_in(world, password="wrong password")[0].status_code == 401
    answer, _ = sign_in(world)
    assert (answer.status_code, answer.json()["error"]["condition"]) == (429, "rate_limited")
    assert answer.headers["retry-after"] == "1"


def test_a_token_signs_in_too(world: World) -> None:
    answer = world.http.post("/v1/session", json={"token": world.tokens["read"]})
    assert (answer.status_code, answer.json()["role"]) == (200, "read")


@pytest.mark.parametrize("body", [{}, {"user": "ada"}, {"user": "ada", "password": "x", "token": "y"}])
def test_half_of_a_sign_in_is_refused(world: World, body: dict[str, str]) -> None:
    assert world.http.post("/v1/session", json=body).status_code == 400


def test_signing_out_ends_the_session(world: World) -> None:
    _, cookie = sign_in(world)
    assert world.http.request("DELETE", "/v1/session", headers={**cookie, **OURS}).status_code == 204
    assert world.http.get("/v1/tables", headers=cookie).status_code == 401
    assert world.http.get("/v1/session", headers=cookie).json()["role"] is None


def test_a_lower_role_a_new_password_or_a_dropped_user_counts_at_once(world: World) -> None:
    users = world.db.users
    _, cookie = sign_in(world)
    users.alter_user("ada", role="read")
    assert world.http.post("/v1/sql", json=CHANGE, headers={**cookie, **OURS}).status_code == 403
    users.alter_user("ada", password="another secret")
    assert world.http.get("/v1/tables", headers=cookie).status_code == 401
    _, cookie = sign_in(world, password="another secret")
    users.drop_user("ada")
    assert world.http.get("/v1/tables", headers=cookie).status_code == 401


def test_a_session_ends_by_itself(world: World) -> None:
    _, cookie = sign_in(world)
    world.pipe.clock.advance(12 * 3600 * 1_000_000 - 1)
    assert world.http.get("/v1/tables", headers=cookie).status_code == 200
    world.pipe.clock.advance(1)
    assert world.http.get("/v1/tables", headers=cookie).status_code == 401


def test_a_person_is_led_to_the_page_and_a_program_is_told(world: World) -> None:
    asked = world.http.get("/console/ask", headers={"Accept": "text/html,application/xhtml+xml"})
    assert (asked.status_code, asked.headers["location"]) == (303, "/sign-in?next=/console/ask")
    assert world.http.get("/console/ask").status_code == 401
    page = world.http.get("/sign-in")
    assert page.status_code == 200 and "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"] and "http" not in page.text.split("</title>")[1]


def test_where_nobody_has_to_sign_in_that_is_said(open_world: World) -> None:
    session = open_world.http.get("/v1/session").json()
    assert session == {"user": None, "role": "admin", "required": False, "expires": None}
    answer = open_world.http.post("/v1/session", json={"user": "ada", "password": "ada's secret"})
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "this server needs no sign-in")
