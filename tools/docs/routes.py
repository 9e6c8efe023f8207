"""Every route of Trilens' own API with its parameters and what it answers, from the OpenAPI schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tools.docs.text import code, page, table
from trilens.serve.openapi import document

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = Mapping[str, Any]

_ABOUT = """\
The typed part of the HTTP API, as `/api/openapi.json` has it. How to ask, errors, and the routes that
Prometheus has too are in [The HTTP API](../api.md). An answer comes as
`{"status": "success", "data": ..., "warnings": [...]}`; what is told here is its `data`."""


def routes_page() -> str:
    told = document()
    routes = [
        _route(path, method, one) for path, ways in told["paths"].items() for method, one in ways.items()
    ]
    types = [_type(name, one) for name, one in sorted(told["components"]["schemas"].items())]
    return page("API routes", _ABOUT, *routes, "# Types", *types)


def _route(path: str, method: str, operation: Schema) -> str:
    parts = [f"## {method.upper()} {code(path)}", _plain(operation["summary"])]
    rows = [
        (
            code(one["name"]) + (" (required)" if one.get("required") and one["in"] == "query" else ""),
            _plain(one.get("description", "")),
        )
        for one in operation.get("parameters", ())
    ]
    if rows:
        parts.append(table(("parameter", "what"), rows))
    if (data := _data(operation)) is not None:
        parts.append(f"Answers: {_shape(data)}")
    return "\n\n".join(parts)


def _data(operation: Schema) -> Schema | None:
    content = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
    found: Schema | None = content.get("schema", {}).get("properties", {}).get("data")
    return found


def _type(name: str, schema: Schema) -> str:
    required = set(schema.get("required", ()))
    rows = [
        (code(field), _shape(one) + ("" if field in required else " (may be absent)"))
        for field, one in schema.get("properties", {}).items()
    ]
    about = _plain(" ".join(schema.get("description", "").split()))
    return "\n\n".join(
        filter(
            None, [f"## {name} {{ #{_anchor(name)} }}", about, table(("field", "type"), rows) if rows else ""]
        )
    )


def _shape(schema: Schema) -> str:
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return f"[{name.rpartition('.')[2]}](#{_anchor(name)})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_shape(one) for one in schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(code(str(one)) for one in schema["enum"])
    kind = schema.get("type")
    if kind == "array":
        inner = schema.get("items") or {}
        return f"list of {_shape(inner)}" if inner else "list"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"object of {_shape(values)}" if isinstance(values, dict) and values else "object"
    return str(kind or "any")


def _anchor(name: str) -> str:
    """Two types of one name are told apart by where they are."""
    return name.lower().replace(".", "-").replace("_", "-")


def _plain(text: str) -> str:
    return text.replace("<", "&lt;")
