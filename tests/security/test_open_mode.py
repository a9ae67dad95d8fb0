"""A server without users: only programs on its own machine may call it, and nothing that forwards for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from penstock.errors import PenstockError
from penstock.server.http.listener import check_proxies, check_token
from penstock.settings import Settings
from tests.server.asgi import Http
from tests.server.fake import FakeDatabase
from tests.server.live import serving

Opener = Callable[..., Http]
TOKEN = "t" * 32
WITH_TOKEN = {"Authorization": f"Bearer {TOKEN}"}
FORWARDING = (
    ("Forwarded", "for=192.0.2.1"),
    ("X-Forwarded-For", "192.0.2.1"),
    ("X-Forwarded-For", "127.0.0.1"),
    ("X-Forwarded-For", ""),
    ("X-Forwarded-Host", "plant.example"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Port", "443"),
    ("X-Forwarded-Server", "gate"),
    ("X-Real-IP", "192.0.2.1"),
    ("X-Client-IP", "192.0.2.1"),
    ("True-Client-IP", "192.0.2.1"),
    ("CF-Connecting-IP", "192.0.2.1"),
    ("Via", "1.1 gate"),
)


@pytest.fixture
def client() -> Iterator[Opener]:
    opened: list[Http] = []

    def open_client(host: str = "127.0.0.1:8470", peer: str = "127.0.0.1", **settings: object) -> Http:
        opened.append(Http(FakeDatabase(), Settings(**settings), host, peer))  # type: ignore[arg-type]
        return opened[-1]

    yield open_client
    for http in opened:
        http.close()


@pytest.mark.parametrize(("name", "value"), FORWARDING)
def test_a_request_that_was_forwarded_is_refused(client: Opener, name: str, value: str) -> None:
    http = client()
    for path in ("/v1/tables", "/v1/session", "/console/", "/metrics"):
        answer = http.get(path, headers={name: value})
        assert (answer.status_code, answer.json()["error"]["condition"]) == (401, "unauthorized"), path
    assert http.get("/v1/tables").status_code == 200


@pytest.mark.parametrize("peer", ["192.0.2.1", "10.0.0.7", "2001:db8::1", "169.254.1.1", "0.0.0.0"])
def test_a_peer_that_is_not_on_this_machine_is_refused(client: Opener, peer: str) -> None:
    assert client(peer=peer).get("/v1/tables").status_code == 401


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_a_peer_on_this_machine_is_answered(client: Opener, peer: str) -> None:
    assert client(peer=peer).get("/v1/tables").status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "", "[", "x@evil.example", "0.0.0.0:8470"],
)
def test_a_name_that_is_not_this_machine_is_refused(client: Opener, host: str) -> None:
    answer = client().get("/v1/tables", headers={"Host": host})
    assert (answer.status_code, answer.json()["error"]["condition"]) == (401, "unauthorized")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:3000", "http://[", "file://"])
def test_a_page_of_another_origin_is_refused(client: Opener, origin: str) -> None:
    answer = client().post("/v1/sql", json={"sql": "SHOW TABLES"}, headers={"Origin": origin})
    assert (answer.status_code, answer.json()["error"]["condition"]) == (401, "unauthorized")


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_origin_cannot_load_parts_of_the_server(client: Opener, site: str) -> None:
    http = client()
    part = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "script"}
    assert http.get("/v1/queries/gas_alarm/rows", headers=part).status_code == 401
    # A link from another page is a person who wants to see the console.
    link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert http.get("/sign-in", headers=link).status_code == 200
    frame = {**link, "Sec-Fetch-Dest": "iframe"}
    assert http.get("/sign-in", headers=frame).status_code == 401
    for own in ("same-origin", "none"):
        assert http.get("/v1/tables", headers={"Sec-Fetch-Site": own}).status_code == 200


def test_with_users_forwarding_headers_are_no_reason_to_refuse(client: Opener) -> None:
    http = client(token=TOKEN)
    assert http.get("/v1/tables", headers={"X-Forwarded-For": "192.0.2.1", **WITH_TOKEN}).status_code == 200


def _guesser(settings: Settings, headers: dict[str, str]) -> str | None:
    database = FakeDatabase()
    with serving(database, settings) as live:
        context = live.app.state.context
        httpx.get(f"{live.url}/v1/tables", headers={"Authorization": f"Bearer {'w' * 40}", **headers}, timeout=60)
        keys = context.sessions.guesses.keys()
    return keys[0] if keys else None


def test_forwarding_headers_are_believed_from_trusted_proxies_only() -> None:
    told = {"X-Forwarded-For": "192.0.2.7"}
    assert _guesser(Settings(token=TOKEN), told) == "token 127.0.0.1"
    assert _guesser(Settings(token=TOKEN, trusted_proxies="10.0.0.1"), told) == "token 127.0.0.1"
    assert _guesser(Settings(token=TOKEN, trusted_proxies="127.0.0.0/8"), told) == "token 192.0.2.7"
    # A client that wrote its own header in front of the proxy's is not believed.
    forged = {"X-Forwarded-For": "127.0.0.1, 192.0.2.8"}
    assert _guesser(Settings(token=TOKEN, trusted_proxies="127.0.0.1"), forged) == "token 192.0.2.8"


def test_a_trusted_proxy_does_not_open_a_server_without_users() -> None:
    with serving(FakeDatabase(), Settings(trusted_proxies="127.0.0.1")) as live:
        for told in ("192.0.2.7", "127.0.0.1"):
            answer = httpx.get(f"{live.url}/v1/tables", headers={"X-Forwarded-For": told}, timeout=60)
            assert answer.status_code == 401
        assert httpx.get(f"{live.url}/v1/tables", timeout=60).status_code == 200


@pytest.mark.parametrize("proxies", ["*", "gate.example", "10.0.0.0/33", "10.0.0.1,,x"])
def test_trusted_proxies_are_addresses_or_networks(proxies: str) -> None:
    with pytest.raises(PenstockError) as caught:
        check_proxies(Settings(trusted_proxies=proxies))
    assert caught.value.condition == "invalid_option"
    check_proxies(Settings(trusted_proxies="127.0.0.1, ::1, 10.0.0.0/8"))


def test_a_backup_that_was_forwarded_is_refused(client: Opener, tmp_path: object) -> None:
    http = client(token=TOKEN)
    told = {"X-Forwarded-For": "192.0.2.1", **WITH_TOKEN}
    answer = http.post("/v1/backup", json={"target": f"{tmp_path}/copy"}, headers=told)
    assert answer.status_code == 401
    assert http.post("/v1/backup", json={"target": f"{tmp_path}/copy"}, headers=WITH_TOKEN).status_code == 200


@pytest.mark.parametrize("token", ["x", "x" * 31, " " * 40, "x" * 20 + " " * 20])
def test_a_short_token_stops_the_start_with_a_hint(token: str) -> None:
    with pytest.raises(PenstockError) as caught:
        check_token(Settings(token=token))
    assert caught.value.condition == "invalid_option"
    assert "32 characters" in caught.value.message and "token_urlsafe" in str(caught.value.hint)
    assert token not in caught.value.render() or token == "x"
    check_token(Settings(token=TOKEN))
    check_token(Settings())
