"""One agent, asked over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlsplit

from trilens.collect.agents.answers import read_events, read_json, read_processes

if TYPE_CHECKING:
    from trilens.collect.agents.answers import Events
    from trilens.collect.http_client import HttpClient
    from trilens.model.node import NodeJobs

_BODY_LIMIT: Final = 32 << 20  # a thousand events are less than a megabyte; output is the largest


class AgentClient:
    """Every method raises ScrapeError, which says what the agent did not do."""

    def __init__(self, http: HttpClient, metrics_url: str, timeout_s: float) -> None:
        """`metrics_url` is where it is scraped: its other pages lie beside that one, also behind a proxy."""
        parts = urlsplit(metrics_url)
        folder = parts.path.removesuffix("/metrics") if parts.path.endswith("/metrics") else ""
        self._base = f"{parts.scheme}://{parts.netloc}{folder}"
        self._http = http
        self._timeout_s = timeout_s

    async def events(self, after: int, wait_s: float = 0.0) -> Events:
        """Where there is none, the agent waits so long for the next; an old one answers at once."""
        params = {"after": str(after), **({"wait": f"{wait_s:.3g}"} if wait_s > 0 else {})}
        return read_events(await self._ask("/v1/events", params, wait_s))

    async def processes(self) -> NodeJobs:
        return read_processes(await self._ask("/v1/processes", {}))

    async def output(self, namespace: str, pod: str) -> dict[str, Any]:
        return await self._ask("/v1/output", {"namespace": namespace, "pod": pod})

    async def _ask(self, path: str, params: dict[str, str], wait_s: float = 0.0) -> dict[str, Any]:
        query = f"?{urlencode(params)}" if params else ""
        answer = await self._http.get(
            f"{self._base}{path}{query}",
            {"Accept": "application/json"},
            timeout_s=self._timeout_s + wait_s,
            body_limit=_BODY_LIMIT,
        )
        return read_json(answer.body)
