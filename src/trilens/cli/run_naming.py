"""Which run is meant by what people write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.model.errors import NotFound, RequestError

if TYPE_CHECKING:
    from trilens.cli.client import Client

_NAMED = 10  # candidates in an error


def run_meant(client: Client, written: str) -> str:
    """The id of the one run."""
    found = client.get("/api/runs", {"named": written, "limit": str(_NAMED + 1)})["data"]["runs"]
    if not found:
        raise NotFound(f"no run {written!r} is known", hint="trilens runs lists them")
    if len(found) > 1:
        candidates = ", ".join(_candidate(one) for one in found[:_NAMED])
        more = " and others" if len(found) > _NAMED else ""
        raise RequestError(f"{written!r} may be any of {candidates}{more}", hint="write one of these ids")
    return str(found[0]["run"])


def _candidate(one: dict[str, Any]) -> str:
    name = run_name(one)
    return f"{one['run']} ({name})" if name != one["run"] else name


def run_name(one: dict[str, Any]) -> str:
    """As people call it."""
    if not one["name"]:
        return str(one["run"])
    return f"{one['experiment']}/{one['name']}" if one["experiment"] else str(one["name"])
