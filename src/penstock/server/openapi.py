"""Pieces of the OpenAPI document that several resources share."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel

from penstock.server.http.decode import ARROW, CSV, JSON, NDJSON, PARQUET
from penstock.server.models import AnswerBody, ErrorBody

ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "the request's mistake"},
    "5XX": {"model": ErrorBody, "description": "the server's trouble"},
}
_BINARY = {"type": "string", "format": "binary"}
ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "model": AnswerBody,
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
    schema = model.model_json_schema()
    schema = _inline(schema, schema.pop("$defs", {}))
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema, "example": example}}}}


def _inline(part: Any, definitions: dict[str, Any]) -> Any:
    """Nested models written out: this schema is not among the document's components."""
    if isinstance(part, dict):
        if "$ref" in part:
            return _inline(definitions[part["$ref"].rsplit("/", 1)[1]], definitions)
        return {key: _inline(value, definitions) for key, value in part.items()}
    return [_inline(value, definitions) for value in part] if isinstance(part, list) else part


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
                PARQUET: {"schema": _BINARY},
            },
        }
    }


def document(app: FastAPI) -> dict[str, Any]:
    """FastAPI's document without its own 422: a wrong parameter is a 400 with our body."""
    found = FastAPI.openapi(app)
    for methods in found["paths"].values():
        for call in methods.values():
            call["responses"].pop("422", None)
    found["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "of CREATE TOKEN, or the setting `token`"}
    }
    found["security"] = [{"token": []}, {}]
    for name in ("HTTPValidationError", "ValidationError"):
        found["components"]["schemas"].pop(name, None)
    return found
