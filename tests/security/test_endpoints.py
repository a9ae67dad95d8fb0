"""Every call of the API without a token, with a wrong one, with too low a role. Calls are found, not listed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, WebSocketRoute

from penstock.security.caller import ROLES, covers
from penstock.security.users import as_caller
from penstock.server.http.context import role_of
from tests.security.conftest import World

# What anybody may call. A new call is not in here, so it has to ask for a role.
OPEN = {
    ("GET", "/v1/health"),
    ("GET", "/v1/session"),
    ("POST", "/v1/session"),
    ("DELETE", "/v1/session"),
    ("GET", "/sign-in"),
}
ADMIN = {("POST", "/v1/backup")}
# These ask for a role statement by statement; and a reader may cancel its own.
READ = {("POST", "/v1/sql"), ("DELETE", "/v1/statements/{id}")}
HOST = "127.0.0.1:8470"
FILLED = {"table": "probes", "name": "hot", "id": "0123456789abcdef", "rest": "x"}


def walk(routes: list[BaseRoute]) -> Iterator[BaseRoute]:
    for route in routes:
        yield route
        inner = getattr(route, "original_router", None) or getattr(route, "router", None)
        yield from walk(getattr(inner, "routes", None) or [])


def calls_of(app: FastAPI) -> list[tuple[str, str, object]]:
    """Method, path and handler of every call, whether or not the document shows it."""
    documented = {(method.upper(), path) for path, methods in app.openapi()["paths"].items() for method in methods}
    found = [
        (method, route.path, route.endpoint)
        for route in walk(app.routes)
        if isinstance(route, APIRoute)
        for method in route.methods
    ]
    assert documented <= {(method, path) for method, path, _ in found}, "the walk misses calls"
    return found


def path_of(template: str) -> str:
    for name, value in FILLED.items():
        template = template.replace("{" + name + ":path}", value).replace("{" + name + "}", value)
    assert "{" not in template, f"say in FILLED what stands for the parameters of {template}"
    return template


def test_without_a_token_or_with_a_wrong_one_every_call_is_refused(world: World) -> None:
    for method, template, _ in calls_of(world.http.app):
        for headers in ({}, {"Authorization": "Bearer pst_wrong"}, {"Cookie": "penstock_session_8470=wrong"}):
            answer = world.http.request(method, path_of(template), headers=headers)
            if (method, template) in OPEN:
                assert answer.status_code not in (401, 403), template
            else:
                assert answer.status_code == 401, (method, template)
                if method != "HEAD":
                    assert answer.json()["error"]["condition"] == "unauthorized"


def test_with_too_low_a_role_every_call_is_refused_before_its_body_is_read(world: World) -> None:
    tried = 0
    for method, template, endpoint in calls_of(world.http.app):
        need = role_of(endpoint, method)
        for role in ROLES:
            if covers(role, need):
                continue
            answer = world.http.request(method, path_of(template), headers=world.headers(role), content=b"{not json")
            assert (answer.status_code, answer.json()["error"]["condition"]) == (403, "forbidden"), (method, template)
            assert f'"{need}"' in answer.json()["error"]["message"]
            tried += 1
    assert tried >= 6


def test_each_call_asks_for_the_role_that_its_method_means_unless_it_is_listed_here(world: World) -> None:
    for method, template, endpoint in calls_of(world.http.app):
        call = (method, template)
        if call in OPEN:
            expected = None
        elif call in ADMIN:
            expected = "admin"
        elif call in READ or method in ("GET", "HEAD"):
            expected = "read"
        else:
            expected = "write"
        assert role_of(endpoint, method) == expected, call


def test_what_is_no_call_asks_for_a_token_too(world: World) -> None:
    for path in ("/openapi.json", "/nothing", "/v1", "/docs"):
        assert world.http.get(path).status_code == 401
        assert world.http.get(path, headers=world.headers("read")).status_code in (200, 404)


def first_message(world: World, path: str, headers: dict[str, str]) -> dict[str, Any]:
    """What a server says first to whoever opens a web socket; the caller then leaves."""
    said: list[dict[str, Any]] = []
    heard = iter([{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}])

    async def receive() -> dict[str, Any]:
        return next(heard, {"type": "websocket.disconnect", "code": 1000})

    async def send(message: Any) -> None:
        said.append(message)

    scope = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "scheme": "ws",
        "path": path,
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in {"Host": HOST, **headers}.items()],
        "client": ("127.0.0.1", 50000),
    }
    world.http._runner.run(asyncio.wait_for(world.http.app(scope, receive, send), 60))
    return said[0]


def test_every_web_socket_is_behind_the_same_door(world: World) -> None:
    ada = as_caller(world.db.users.accounts().users["ada"])
    sessions = world.http.app.state.context.sessions
    cookie = {"Cookie": f"{sessions.cookie}={sessions.begin(ada)}"}
    refused = [{}, {"Authorization": "Bearer wrong"}, {"Cookie": "x=y"}, cookie]
    refused.append({**cookie, "Origin": "http://evil.example"})
    found = [route for route in walk(world.http.app.routes) if isinstance(route, WebSocketRoute)]
    assert found
    for route in found:
        path = path_of(route.path)
        for headers in refused:
            assert first_message(world, path, headers)["type"] == "websocket.close", (path, headers)
        if role_of(route.endpoint, "GET") == "write":
            assert first_message(world, path, world.headers("read"))["type"] != "websocket.accept", path
        for headers in (world.headers("admin"), {**cookie, "Origin": f"http://{HOST}"}):
            assert first_message(world, path, headers)["type"] == "websocket.accept", (path, headers)


def test_a_role_is_enough_for_what_it_is_for(world: World) -> None:
    push = [{"id": 1, "value": 40.0}]
    assert world.http.post("/v1/tables/probes/readings", json=push, headers=world.headers("read")).status_code == 403
    assert world.http.post("/v1/tables/probes/readings", json=push, headers=world.headers("write")).status_code == 200
    ask = {"sql": "SHOW QUERIES"}
    assert world.http.post("/v1/sql", json=ask, headers=world.headers("read")).status_code == 200
    make = {"sql": "CREATE TABLE rooms (id INT PRIMARY KEY)"}
    assert world.http.post("/v1/sql", json=make, headers=world.headers("write")).status_code == 403
    assert world.http.post("/v1/sql", json=make, headers=world.headers("admin")).status_code == 200
    # As InfluxDB's clients write it.
    influx = {"Authorization": f"Token {world.tokens['write']}"}
    assert world.http.get("/v1/tables", headers=influx).status_code == 200


def test_whoever_signs_in_owns_what_they_register_whatever_they_say(world: World) -> None:
    token = world.db.users.create_token("adas", "write", "ada")
    headers = {"Authorization": f"Bearer {token}", "Penstock-User": "somebody else"}
    body = {"queries": [{"name": "q", "sql": "SELECT value FROM probes"}]}
    assert world.http.post("/v1/queries", json=body, headers=headers).status_code == 201
    assert world.db.catalog.state.queries["q"].owner == "ada"
