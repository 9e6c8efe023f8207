"""/api/v1/sd/programs: the endpoints of training and serving programs, as HTTP service discovery.

A source is whoever knows some: the pods of watched clusters, and programs that register themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import orjson

from trilens.model.errors import NotReadYet
from trilens.serve.envelope import accepts_gzip, pack, packed_response
from trilens.serve.params import read_params

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.program import Program
    from trilens.model.workload import PodKey

_META = "__meta_trilens_"


class ProgramSource(Protocol):
    def programs(self) -> list[Program]:
        """Those that are there now."""

    def unread(self) -> list[str]:
        """Clusters of which nothing can be said yet."""


class ProgramsApi:
    """Of two sources that know an endpoint, the first is believed."""

    def __init__(self, sources: Sequence[ProgramSource]) -> None:
        self._sources = sources

    async def programs(self, request: Request) -> Response:
        params = await read_params(request, 0)
        cluster, namespace = params.first("cluster"), params.first("namespace")
        unread = {name for source in self._sources for name in source.unread() if cluster in ("", name)}
        if unread:
            # A Prometheus that is told of an empty list drops its targets; after an error it keeps them.
            raise NotReadYet(f"not read through yet: {', '.join(sorted(unread))}")
        known: dict[tuple[PodKey, str, str], Program] = {}  # clusters may use the same addresses
        for source in self._sources:
            for program in source.programs():
                known.setdefault((program.pod, program.address, program.path), program)
        groups = [
            {"targets": [program.address], "labels": _labels(program)}
            for program in known.values()
            if cluster in ("", program.pod.cluster) and namespace in ("", program.pod.namespace)
        ]
        return packed_response(pack(orjson.dumps(groups), accepts_gzip(request)))


def _labels(program: Program) -> dict[str, str]:
    facts: dict[str, Any] = {
        "cluster": program.pod.cluster,
        "namespace": program.pod.namespace,
        "pod": program.pod.name,
        "container": program.container,
        "node": program.node,
        "workload": program.workload.name,
        "kind": program.workload.kind,
        "attempt": program.attempt,
        "role": program.role,
        "node_rank": program.node_rank,
        "rank": program.rank,
        "team": program.team,
        "experiment": program.experiment,
    }
    labels = {_META + name: str(value) for name, value in facts.items() if value not in (None, "")}
    return {"__scheme__": program.scheme, "__metrics_path__": program.path, **labels}
