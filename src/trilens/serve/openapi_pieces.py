"""The pieces that an OpenAPI document repeats."""

from __future__ import annotations

from typing import Any

from trilens.serve.envelope import JSON


def parameter(name: str, place: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": text,
        "schema": {"type": "string"},
    }


def list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def operation(
    text: str, parameters: list[dict[str, Any]], data: dict[str, Any], failure: dict[str, Any]
) -> dict[str, Any]:
    envelope = {
        "type": "object",
        "required": ["status", "data"],
        "properties": {
            "status": {"const": "success"},
            "data": data,
            "warnings": {"type": "array", "items": {"type": "string"}},
        },
    }
    return {
        "summary": text,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer.", "content": {JSON: {"schema": envelope}}},
            "default": {"description": "What is wrong.", "content": {JSON: {"schema": failure}}},
        },
    }
