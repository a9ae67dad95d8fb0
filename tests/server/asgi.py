"""Calls the API without a network, from tests that are not async."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from fastapi import FastAPI

from penstock.server.app import create_app
from penstock.server.http.access import Sessions
from penstock.server.http.context import Lifecycle
from penstock.settings import Settings
from tests.server.fake import FakeDatabase


class Http:
    """An application and a client for it on one event loop. `lifecycle` says whether the database is there yet."""

    def __init__(
        self,
        database: FakeDatabase,
        settings: Settings,
        host: str = "127.0.0.1:8470",
        peer: str = "127.0.0.1",
        sessions: Sessions | None = None,
    ) -> None:
        self._runner = asyncio.Runner()
        self.lifecycle = Lifecycle()
        self.app: FastAPI = create_app(database, settings, self.lifecycle, sessions=sessions)
        transport = httpx.ASGITransport(app=self.app, client=(peer, 50000))
        self._client = httpx.AsyncClient(transport=transport, base_url=f"http://{host}")

    def request(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            return await self._client.request(method, path, **arguments)

        return self._runner.run(send())

    def get(self, path: str, **arguments: Any) -> httpx.Response:
        return self.request("GET", path, **arguments)

    def post(self, path: str, **arguments: Any) -> httpx.Response:
        return self.request("POST", path, **arguments)

    def close(self) -> None:
        self._runner.run(self._client.aclose())
        self.app.state.context.workers.close()
        self.app.state.context.sessions.close()
        self._runner.close()
