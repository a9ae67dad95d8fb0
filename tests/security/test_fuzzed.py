"""The API under schemathesis, from its own OpenAPI document: whatever comes, nothing is the server's fault.

Cases fit the document or just miss it. Names of things that are there, and statements that mean something, are mixed in,
because random text would never get past the first look. PENSTOCK_SOAK makes it long.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from penstock.server.app import create_app
from penstock.settings import Settings
from tests.security.conftest import World

DOCUMENT = create_app(Mock(), Settings()).openapi()
LABELS = [f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods]
EXAMPLES = 400 if os.environ.get("PENSTOCK_SOAK") else 12
BASE = "http://127.0.0.1:8470"
STATEMENTS = [
    "SHOW TABLES",
    "SHOW QUERIES LIKE $1",
    "SELECT * FROM hot",
    "SELECT * FROM hot AS OF CYCLE 1",
    "EXPLAIN SELECT value FROM probes WHERE value > $1",
    "DESCRIBE probes; DESCRIBE penstock.queries",
    "INSERT INTO probes VALUES ($1, $2, NULL)",
    "UPDATE probes SET place = $1 WHERE id = 1",
    "CREATE QUERY q AS SELECT value FROM probes WHERE value > $1",
    "ALTER QUERY hot SET BEGIN (NOW - 1 MINUTE)",
    "CREATE TABLE t (id INT PRIMARY KEY, x STREAM (y DOUBLE))",
    "DROP QUERY IF EXISTS q; DROP TABLE IF EXISTS t",
    "SUBSCRIBE TO hot",
    "CREATE TOKEN t ROLE $1",
    "BEGIN; COMMIT",
]
NAMES = ["probes", "hot", "nothing", 'a"b', "ä", " "]
READINGS = [
    b'[{"id": 1, "value": 40}]',
    b'[{"id": 1, "value": "x", "ts": "never"}, {"id": [], "value": {}}]',
    b'{"id": 1}\n{"id": 2, "value": 1e400}\n',
    b"id,value\n1,37.5\n2,\n,,\n",
    b"probes,id=1 value=3.5\nprobes,id=1 value=",
    b"\xff\xfe\x00",
    b"",
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    found = World(tmp_path_factory.mktemp("fuzzed"))
    # Nobody runs cycles while a request waits for one, and live streams end at once: nobody here would leave.
    found.pipe.set_intervals(own_writes_s=0.0)
    yield from _opened(found)


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    """Every operation of the document; each process that collects these tests would pay for its library otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that it imports
        import schemathesis
    found = [operation.ok() for operation in schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()]
    assert [operation.label for operation in found] == LABELS
    return {operation.label: operation for operation in found}


def _opened(found: World) -> Iterator[World]:
    found.http.app.state.context.lifecycle.closing.set()
    yield found
    found.close()


def sent(case: Any, data: st.DataObject, backups: Path) -> requests.PreparedRequest:
    """The request of a case, at times about things that are there."""
    if case.path_parameters and data.draw(st.booleans(), "something that is there"):
        case.path_parameters = {name: data.draw(st.sampled_from(NAMES), name) for name in case.path_parameters}
    body = case.body if isinstance(case.body, dict) else {}
    if "sql" in body and data.draw(st.booleans(), "a statement that means something"):
        case.body = {**body, "sql": data.draw(st.sampled_from(STATEMENTS), "statement")}
    if "target" in body and isinstance(body["target"], str):
        case.body = {**body, "target": f"{backups}/{body['target'].replace('/', '_').replace('.', '_')}"}
    prepared = requests.Request(**case.as_transport_kwargs(base_url=BASE)).prepare()
    takes_readings = case.operation.path.endswith(("/readings", "/write"))
    if takes_readings and data.draw(st.booleans(), "readings"):
        prepared.body = data.draw(st.sampled_from(READINGS), "body")
        prepared.headers.pop("Content-Length", None)
    return prepared


def cases_of(operation: Any) -> st.SearchStrategy[Any]:
    """Requests that fit the document, and some that do not where there is something to get wrong."""
    from schemathesis import GenerationMode

    fitting: st.SearchStrategy[Any] = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    if not list(operation.body) and not list(operation.query):
        return fitting
    return fitting | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)


@pytest.mark.parametrize("label", LABELS)
def test_no_call_ends_in_an_error_of_the_server(
    label: str, operations: dict[str, Any], world: World, tmp_path: Path
) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases_of(operations[label]), data=st.data())
    def hold(case: Any, data: st.DataObject) -> None:
        request = sent(case, data, tmp_path)
        world.pipe.engine.drain()
        assert request.url is not None and request.method is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        answer = world.http.request(request.method, request.url, headers=headers, content=request.body)
        assert answer.status_code < 500, (request.method, request.url, request.body, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["error"], answer.text

    hold()
