"""What is learned without a role: ready or not, and that one has to sign in."""

from __future__ import annotations

import pytest

from penstock import __version__
from tests.security.conftest import World
from tests.sensors.mqtt_world import wait_until

PATHS = (
    "/",
    "/console",
    "/console/queries",
    "/openapi.json",
    "/docs",
    "/redoc",
    "/metrics",
    "/v1/health",
    "/v1/status",
    "/v1/session",
    "/v1/tables",
    "/v1/queries/hot/events",
    "/sign-in",
    "/nothing/of/the/kind",
    "/v1/tables/probes/readings?token=x",
)


def test_health_without_a_role_is_one_word(world: World) -> None:
    assert world.http.get("/v1/health").json() == {"ready": True, "reason": "ready", "details": {}}
    (service,) = world.db.follower.services()

    def fail() -> float | None:
        raise OSError("/srv/data/log/7 cannot be read")

    service.step = fail
    wait_until(lambda: not world.db.health().ready)
    failed = world.db.health()
    assert "/srv/data/log/7" in failed.reason and failed.details
    answer = world.http.get("/v1/health")
    assert answer.status_code == 503
    assert answer.json() == {"ready": False, "reason": "unready", "details": {}}
    told = world.http.get("/v1/health", headers=world.headers("read")).json()
    assert told == {"ready": False, "reason": failed.reason, "details": failed.details}
    world.http.lifecycle.ready, world.http.lifecycle.reason = False, "reading the committed cycles of /srv/data"
    assert world.http.get("/v1/health").json()["reason"] == "unready"


@pytest.mark.parametrize("ready", [True, False])
def test_no_answer_to_a_stranger_has_a_version_a_name_or_a_path(world: World, ready: bool) -> None:
    world.http.lifecycle.ready = ready
    words = (__version__, "probes", "hot", str(world.pipe.folder), "uvicorn", "fastapi", "starlette", "spark", "python")
    for path in PATHS:
        for accept in ("*/*", "text/html"):
            answer = world.http.get(path, headers={"Accept": accept})
            said = answer.text.lower() + str(dict(answer.headers)).lower()
            sent = path.lower()
            assert not [word for word in words if word.lower() in said and word.lower() not in sent], (path, said[:300])
            assert answer.status_code in (200, 303, 401, 503) and (answer.status_code != 200 or path in OPEN), path


OPEN = ("/v1/health", "/v1/session", "/sign-in")
