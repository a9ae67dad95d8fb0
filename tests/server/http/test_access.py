"""Tokens, and who may call a server that has none."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.errors import PenstockError
from penstock.server.http.listener import check_exposure, is_loopback
from penstock.settings import Settings
from tests.server.asgi import Http
from tests.server.fake import FakeDatabase

Opener = Callable[..., Http]


@pytest.fixture
def client() -> Iterator[Opener]:
    opened: list[Http] = []

    def open_client(settings: Settings, host: str = "127.0.0.1:8470") -> Http:
        opened.append(Http(FakeDatabase(), settings, host))
        return opened[-1]

    yield open_client
    for http in opened:
        http.close()


def test_with_a_token_everything_but_health_asks_for_it(client: Opener) -> None:
    http = client(Settings(host="0.0.0.0", token="s3cret-s3cret-s3cret-s3cret-s3cret"), "db.example")
    for path in ("/v1/tables", "/metrics", "/openapi.json", "/nothing"):
        response = http.get(path)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.json()["error"]["condition"] == "unauthorized"
    for wrong in (
        "Bearer other",
        "Basic s3cret-s3cret-s3cret-s3cret-s3cret",
        "s3cret-s3cret-s3cret-s3cret-s3cret",
        "Bearer",
        "Bearer s3cret-s3cret-s3cret-s3cret-s3cretx",
        "Bearer \xfc",
    ):
        assert http.get("/v1/tables", headers=[("Authorization", wrong.encode("latin-1"))]).status_code == 401
    assert (
        http.get("/v1/tables", headers={"Authorization": "bearer s3cret-s3cret-s3cret-s3cret-s3cret"}).status_code
        == 200
    )


def test_health_without_the_token_shows_no_details(client: Opener) -> None:
    http = client(Settings(token="s3cret-s3cret-s3cret-s3cret-s3cret"))
    assert http.get("/v1/health").json() == {"ready": True, "reason": "ready", "details": {}}
    assert http.get("/v1/health", headers={"Authorization": "Bearer s3cret-s3cret-s3cret-s3cret-s3cret"}).json()[
        "details"
    ] == {"cycle": 7}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "db.example"])
def test_listening_to_others_without_a_token_is_refused(host: str) -> None:
    with pytest.raises(PenstockError) as caught:
        check_exposure(Settings(host=host))
    assert caught.value.condition == "token_required"
    check_exposure(Settings(host=host, token="x" * 32))


def test_loopback_is_recognised() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "localhost.example", ""]))


def test_a_page_of_another_site_cannot_use_a_server_without_a_token(client: Opener) -> None:
    http = client(Settings())
    assert http.get("/v1/tables", headers={"Origin": "http://evil.example"}).status_code == 401
    assert http.get("/v1/tables", headers={"Origin": "null"}).status_code == 401
    assert http.get("/v1/tables", headers={"Origin": "http://127.0.0.1:8470"}).status_code == 200


def test_a_server_that_others_reach_does_not_open_when_its_last_user_goes(client: Opener) -> None:
    http = client(Settings(host="0.0.0.0"), "127.0.0.1:8470")
    answer = http.get("/v1/tables")
    assert answer.status_code == 401 and "no users any more" in answer.json()["error"]["message"]
    assert http.get("/v1/session").status_code == 401


def test_a_name_that_was_rebound_to_us_is_refused(client: Opener) -> None:
    assert client(Settings(), "evil.example").get("/v1/tables").status_code == 401
    assert client(Settings(), "localhost:8470").get("/v1/tables").status_code == 200
