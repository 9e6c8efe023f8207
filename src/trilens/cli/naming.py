"""Which workload is meant by what people write."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from trilens.model.errors import NotFound, RequestError

if TYPE_CHECKING:
    from trilens.cli.client import Client


def path_of(client: Client, written: str, namespace: str | None, params: dict[str, str]) -> str:
    """CLUSTER/NAMESPACE/KIND/NAME of the one workload that is meant, in `namespace` unless it names one.
    Where none of that name is there, the one that went last."""
    parts = written.split("/")
    if not all(parts) or len(parts) not in (1, 2, 4):
        raise RequestError(
            f"{written!r} names no workload",
            hint="write NAME, NAMESPACE/NAME, KIND/NAME or CLUSTER/NAMESPACE/KIND/NAME",
        )
    if len(parts) == 4:
        return written

    def meant(**more: str) -> list[dict[str, Any]]:
        namesakes = client.get("/api/workloads", {**params, "name": parts[-1], **more})["data"]
        return [one for one in namesakes if _is_meant(one, parts, namespace)]

    found = meant()
    if not found:
        gone = meant(**{"from": "0"})
        if not gone:
            where = f" in namespace {namespace}" if namespace is not None else ""
            raise NotFound(
                f"no workload {written!r}{where} at that time, nor before",
                hint="trilens workloads lists them",
            )
        return _full_name(max(gone, key=_gone_ms))
    if len(found) > 1:
        raise RequestError(
            f"{written!r} may be any of {', '.join(sorted(_full_name(one) for one in found))}",
            hint="write one of these",
        )
    return _full_name(found[0])


def _is_meant(one: dict[str, Any], parts: list[str], namespace: str | None) -> bool:
    if one["name"] != parts[-1]:
        return False
    if len(parts) == 2 and parts[0] == one["namespace"]:
        return True
    kinds = (one["kind"].lower(), f"{one['kind']}.{one['group']}".lower())
    return namespace in (None, one["namespace"]) and (len(parts) == 1 or parts[0].lower() in kinds)


def _gone_ms(one: dict[str, Any]) -> float:
    return float(one["gone"]["at_ms"]) if one["gone"] else math.inf  # it came between two questions


def _full_name(one: dict[str, Any]) -> str:
    kind = f"{one['kind']}.{one['group']}" if one["group"] else one["kind"]
    return f"{one['cluster']}/{one['namespace']}/{kind}/{one['name']}"
