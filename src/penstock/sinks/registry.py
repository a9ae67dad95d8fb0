"""Which kinds of sinks there are, and their options read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.catalog.model import Sink
from penstock.errors import error, suggest
from penstock.sensors.options import read_options
from penstock.sinks import files, mqtt, postgres, webhook
from penstock.sinks.base import Kind
from penstock.types import Field

KINDS = {kind.name: kind for kind in (webhook.KIND, files.KIND, mqtt.KIND, postgres.KIND)}


def find_kind(name: str) -> Kind:
    found = KINDS.get(name.lower())
    if found is None:
        hint = suggest(name, KINDS) or "there are " + ", ".join(KINDS)
        raise error("sink_kind_not_found", kind=name, hint=hint)
    return found


def parse_options(kind: Kind, options: Mapping[str, str]) -> dict[str, Any]:
    """Defaults and given options as values; invalid_option for an unknown, missing or unreadable one."""
    return read_options(kind.name, kind.options, False, options)


def kind_of(sink: Sink) -> tuple[Kind, dict[str, Any]]:
    """A sink's kind, and its options as values."""
    kind = find_kind(sink.kind)
    return kind, parse_options(kind, sink.options)


def check_sink(name: str, options: Mapping[str, str], columns: Sequence[Field]) -> Kind:
    """Everything that can be said before a sink is opened: for CREATE SINK."""
    kind = find_kind(name)
    parsed = parse_options(kind, options)
    kind.check(columns, parsed)
    return kind
