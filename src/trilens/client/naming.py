"""Which run or workload is meant by what people write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.client.shapes import workload_name
from trilens.model.errors import NotFound, RequestError

if TYPE_CHECKING:
    from trilens.client.connection import Connection

_NAMED = 10  # candidates in an error


def run_meant(connection: Connection, written: str) -> str:
    """The id of the one run: of several with one name, the latest, as a program that is started again gives
    its run the same name."""
    found = connection.get("/api/runs", {"named": written, "limit": str(_NAMED + 1)}).data["runs"]
    if not found:
        raise NotFound(f"no run {written!r} is known", hint="runs() lists them")
    latest = found[0]
    names = (latest["run"], latest["name"], f"{latest['experiment']}/{latest['name']}")
    if len(found) > 1 and written not in names:
        raise RequestError(
            f"{written!r} may be any of {_listed([one['run'] for one in found])}",
            hint="write one of these ids",
        )
    return str(latest["run"])


def workload_meant(connection: Connection, written: str) -> str:
    """CLUSTER/NAMESPACE/KIND/NAME, of that, NAMESPACE/NAME or NAME."""
    parts = written.split("/")
    if len(parts) == 4:
        return written
    params = {"name": parts[-1], **({"namespace": parts[0]} if len(parts) == 2 else {})}
    found: list[dict[str, Any]] = connection.get("/api/workloads", params).data if len(parts) < 3 else []
    names = [str(workload_name(one)) for one in found]
    if not names:
        raise NotFound(f"no workload {written!r} is known", hint="workloads() lists them")
    if len(names) > 1:
        raise RequestError(f"{written!r} may be any of {_listed(names)}", hint="write one of these")
    return names[0]


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (" and more" if len(names) > _NAMED else "")
