"""The console where people have to sign in: the page for it, what a role may click, and the way out."""

from __future__ import annotations

import json
import re
import socketserver
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

import penstock
from penstock.security.users import Users
from tests.browser.browser import Visitor, chromium, serving

expect.set_options(timeout=120_000)
PASSWORDS = {"root": "the root of it all", "rita": "rita only reads"}
MAKE = "CREATE USER root PASSWORD $1 ROLE admin; CREATE USER rita PASSWORD $2 ROLE read"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("signing_in") / "data"


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    chromium()
    with serving(folder) as found:
        # The first of them closes the door behind whoever made it, so both come in one script.
        with penstock.connect(found) as db:
            db.sql("CREATE TABLE ovens (id INT PRIMARY KEY, reading STREAM (c DOUBLE))")
            db.sql(MAKE, *PASSWORDS.values())
        yield found


def sign_in(visitor: Visitor, name: str, password: str) -> None:
    visitor.page.get_by_label("User", exact=True).fill(name)
    visitor.page.get_by_label("Password").fill(password)
    visitor.button("Sign in")


def test_a_stranger_is_led_to_the_page_and_gets_in_by_the_right_password_only(visitor: Visitor) -> None:
    visitor.page.goto(f"{visitor.url}/console/sensors")
    expect(visitor.page.get_by_role("heading", name="Sign in to Penstock")).to_be_visible()
    visitor.screenshots("sign-in")
    sign_in(visitor, "rita", "a guess")
    expect(visitor.page.get_by_role("alert")).to_contain_text("password")
    assert [p for p in visitor.problems if "401" not in p] == []
    visitor.problems.clear()  # the browser says that the guess was refused
    sign_in(visitor, "rita", PASSWORDS["rita"])
    # Where they wanted to go.
    expect(visitor.page.get_by_role("heading", name="Sensors", level=1)).to_be_visible()
    expect(visitor.page.get_by_role("cell", name="ovens", exact=True)).to_be_visible()


def test_nothing_of_the_console_is_open_to_strangers(url: str) -> None:
    socket = "/console/_nicegui_ws/socket.io/?EIO=4&transport=polling"
    for path in ("/console/", "/console/assets/console.css", "/console/favicon.ico", socket):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(url + path, timeout=60)
        refused.value.close()
        assert refused.value.code == 401, path
        assert refused.value.headers["X-Frame-Options"] == "DENY", path
    with pytest.raises(InvalidStatus) as closed:
        connect(url.replace("http", "ws") + socket.replace("polling", "websocket")).close()
    assert closed.value.response.status_code == 403


def test_a_token_opens_no_page(url: str, folder: Path) -> None:
    token = Users(folder).create_token("program", "read", owner="rita")
    headers = {"Authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{url}/console/", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=60)
    refused.value.close()
    assert refused.value.code == 401
    socket = "/console/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    with pytest.raises(InvalidStatus):
        connect(url.replace("http", "ws") + socket, additional_headers=headers).close()


def test_the_browser_keeps_pages_to_their_own_server(visitor: Visitor) -> None:
    visitor.page.goto(f"{visitor.url}/console/system")
    sign_in(visitor, "rita", PASSWORDS["rita"])
    expect(visitor.page.get_by_role("heading", name="System", level=1)).to_be_visible()
    assert visitor.problems == []
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as elsewhere:
        outside = f"http://127.0.0.1:{elsewhere.server_address[1]}/"
        for attempt in (
            "fetch",
            "url => new Promise((ok, no) => Object.assign(new Image(), {src: url, onload: ok, onerror: no}))",
        ):
            got = visitor.page.evaluate(f"url => ({attempt})(url).then(() => 'loaded', () => 'refused')", outside)
            assert got == "refused"
    assert visitor.problems and all(
        "Content Security Policy" in p or "asked the outside" in p for p in visitor.problems
    )
    visitor.problems.clear()


def test_a_click_may_do_what_the_role_may_and_somebody_who_signs_out_is_out(visitor: Visitor, folder: Path) -> None:
    visitor.page.goto(f"{visitor.url}/console/sensors/ovens")
    sign_in(visitor, "rita", PASSWORDS["rita"])
    visitor.button("Drop")
    visitor.button("Drop it")
    refused = visitor.page.get_by_text('DROP TABLE needs the role "admin"; rita has "read"')
    expect(refused).to_be_visible()
    visitor.button("Close")
    visitor.page.set_viewport_size({"width": 390, "height": 844})
    visitor.button("Sign out rita")
    expect(visitor.page.get_by_role("heading", name="Sign in to Penstock")).to_be_visible()
    visitor.page.set_viewport_size({"width": 1280, "height": 800})
    sign_in(visitor, "root", PASSWORDS["root"])
    visitor.button("Drop")
    visitor.button("Drop it")
    expect(visitor.page.get_by_role("heading", name="Sensors", level=1)).to_be_visible()
    expect(visitor.page.get_by_role("cell", name="ovens", exact=True)).to_have_count(0)
    lines = [json.loads(line) for line in (folder / "audit" / "audit.jsonl").read_text().splitlines()]
    drops = [(line["who"], line["via"], line["outcome"]) for line in lines if line["action"] == "DROP TABLE"]
    assert drops == [("rita", "session", "forbidden"), ("root", "session", "done")]


def test_no_secret_is_on_a_page(visitor: Visitor) -> None:
    visitor.page.goto(f"{visitor.url}/console/ask")
    sign_in(visitor, "root", PASSWORDS["root"])
    secret = "tell-nobody-of-this"
    visitor.write(
        "CREATE STREAM TYPE far AS (c DOUBLE) USING mqtt OPTIONS (url 'mqtt://127.0.0.1:1', topic 'ovens/{id}',"
        f" username 'me', password '{secret}');\nCREATE TABLE far_ovens (id INT PRIMARY KEY, reading STREAM far)"
    )
    visitor.button("Run")
    expect(visitor.page.get_by_text(re.compile("^Done"))).to_be_visible()
    for asked in ("SHOW STREAM TYPES", "DESCRIBE far_ovens", "SHOW INPUTS", "SHOW SETTINGS"):
        visitor.write(asked)
        visitor.button("Run")
        expect(visitor.page.locator(".list tbody tr").first).to_be_visible()
        assert secret not in visitor.page.content(), asked
    for page in ("sensors/far_ovens", "system"):
        visitor.go(page)
        assert secret not in visitor.page.content(), page
