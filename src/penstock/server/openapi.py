"""Pieces of the OpenAPI document that several resources share."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from penstock.server.decode import ARROW, CSV, JSON, NDJSON
from penstock.server.models import Answer, ErrorBody

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "the request's mistake"},
    "5XX": {"model": ErrorBody, "description": "the server's trouble"},
}
_BINARY = {"type": "string", "format": "binary"}
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "model": Answer,
        "description": "the answer, in the format that Accept asks for",
        "content": {
            CSV: {"schema": {"type": "string"}, "example": "location,ppm\nnorth gate,37.5\n"},
            NDJSON: {"schema": {"type": "string"}, "example": '{"location":"north gate","ppm":37.5}\n'},
            ARROW: {"schema": _BINARY},
        },
    },
}


def json_body(model: type[BaseModel], example: dict[str, Any]) -> dict[str, Any]:
    """A request body that the handler reads itself, to bound its size."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema, "example": example}}}}


def readings_body() -> dict[str, Any]:
    reading = {"type": "object", "additionalProperties": True}
    return {
        "requestBody": {
            "required": True,
            "content": {
                JSON: {
                    "schema": {"type": "array", "items": reading},
                    "example": [{"sensor_id": 1, "ts": "2026-01-05T12:00:00Z", "ppm": 37.5}],
                },
                NDJSON: {"schema": {"type": "string"}, "example": '{"sensor_id": 1, "ppm": 37.5}\n'},
                CSV: {"schema": {"type": "string"}, "example": "sensor_id,ppm\n1,37.5\n"},
                ARROW: {"schema": _BINARY},
            },
        }
    }
