"""Readings that senders bring themselves, over the HTTP API. Nothing is opened and nothing is polled."""

from __future__ import annotations

from penstock.sensors.base import Connector

CONNECTOR = Connector(
    name="http",
    sentence="Readings are pushed to POST /v1/tables/TABLE/readings; always logged, with or without queries.",
    mode="outside",
)
