"""Which kinds of sinks there are, and their options read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import error, suggest
from penstock.sensors.options import read_options
from penstock.sinks import files, mqtt, postgres, webhook
from penstock.sinks.base import Kind

KINDS = {kind.name: kind for kind in (webhook.KIND, files.KIND, mqtt.KIND, postgres.KIND)}


def parse_options(kind: Kind, options: Mapping[str, str]) -> dict[str, Any]:
    """Defaults and given options as values; invalid_option for an unknown, missing or unreadable one."""
    return read_options(kind.name, kind.options, False, options)


def read_kind(name: str, options: Mapping[str, str]) -> tuple[Kind, dict[str, Any]]:
    """The kind of that name, and its options as values."""
    kind = KINDS.get(name.lower())
    if kind is None:
        hint = suggest(name, KINDS) or "there are " + ", ".join(KINDS)
        raise error("sink_kind_not_found", kind=name, hint=hint)
    return kind, parse_options(kind, options)
