"""A server's own answers about itself, each asked for once, when a check first wants it."""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from trilens.model.errors import ServerError
from trilens.serve.checkup.asked_once import AskedOnce

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAMPLE: Final = re.compile(r"(?P<name>trilens_\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_TO_STRANGERS: Final = frozenset({"ready", "lacks"})
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Fetched(Protocol):
    @property
    def text(self) -> str: ...

    @property
    def headers(self) -> Mapping[str, str]: ...


class Server(Protocol):
    """The API of a server, asked over a socket or within it; ServerError where it does not answer well."""

    def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]: ...

    def post(self, path: str, *, form: Mapping[str, str]) -> dict[str, Any]: ...

    def probe(self, path: str) -> dict[str, Any]: ...

    def fetch(self, path: str) -> Fetched: ...


class Evidence:
    """Thread-safe."""

    def __init__(self, client: Server) -> None:
        self._client = AskedOnce(client)

    @cached_property
    def readiness(self) -> dict[str, Any]:
        told = self._client.probe("/readyz")
        if told.keys() <= _TO_STRANGERS:
            raise ServerError(
                "the server tells how it stands only to who may read all of it",
                hint="trilens login, or set TRILENS_TOKEN to one that may read, of all teams and clusters",
            )
        return told

    @cached_property
    def targets(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get("/api/v1/targets", {"state": "active"})["data"][
            "activeTargets"
        ]
        return found

    @cached_property
    def workloads(self) -> list[dict[str, Any]]:
        return self._listed("/api/workloads")

    @cached_property
    def missing_gpus(self) -> list[dict[str, Any]]:
        return self._listed("/api/gpus", lost="true")

    @cached_property
    def rules(self) -> list[dict[str, Any]]:
        groups = self._client.get("/api/v1/rules", {"exclude_alerts": "true"})["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    @cached_property
    def trackers(self) -> list[dict[str, Any]]:
        return self._listed("/api/trackers")

    @cached_property
    def receivers(self) -> list[dict[str, Any]]:
        return self._listed("/api/receivers")

    @cached_property
    def backups(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get("/api/backups")["data"]
        return found

    @cached_property
    def prices(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get("/api/prices")["data"]
        return found

    @cached_property
    def incidents(self) -> list[dict[str, Any]]:
        return self._listed("/api/incidents")

    @cached_property
    def findings(self) -> dict[str, Any]:
        """With the warnings about what could not be looked at."""
        return self._client.get("/api/findings")

    @cached_property
    def is_reloaded(self) -> bool:
        """Whether the settings were taken over when that was last asked for."""
        return bool(self._client.get("/api/v1/status/runtimeinfo")["data"]["reloadConfigSuccess"])

    @cached_property
    def clock_ahead_s(self) -> float | None:
        """By how much the server's clock is ahead of this machine's; it tells whole seconds, so about."""
        asked_s = time.time()
        told = self._client.fetch("/healthz").headers.get("date")
        middle_s = (asked_s + time.time()) / 2
        try:
            return parsedate_to_datetime(told).timestamp() + 0.5 - middle_s if told else None
        except ValueError:
            return None

    @property
    def clusters(self) -> dict[str, Any]:
        found: dict[str, Any] = self.readiness.get("kubernetes", {}).get("clusters", {})
        return found

    def own(self, name: str, **labels: str) -> float | None:
        """The sum of the server's own metric of that name; None where it has none."""
        found = [
            value
            for of, its, value in self._own
            if of == name and all(its.get(label) == text for label, text in labels.items())
        ]
        return sum(found) if found else None

    def ask(self, promql: str) -> list[dict[str, str]]:
        """The labels of the series that a query finds."""
        return [labels for labels, _ in self.values(promql)]

    def values(self, promql: str) -> list[tuple[dict[str, str], float]]:
        """The series that a query finds, and what each says."""
        if (told := self.readiness.get("source")) and not told["reachable"]:
            raise ServerError(f"{told['url']}, which has the samples, does not answer")
        answer = self._client.post("/api/v1/query", form={"query": promql})
        return [(series["metric"], float(series["value"][1])) for series in answer["data"]["result"]]

    def why(self, subject: str) -> list[dict[str, Any]]:
        """The verdicts on somebody, the surest first."""
        found: list[dict[str, Any]] = self._client.get("/api/why", {"subject": subject})["data"]["verdicts"]
        return found

    def _listed(self, path: str, **params: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get(path, params)["data"]
        return found

    @cached_property
    def _own(self) -> list[tuple[str, dict[str, str], float]]:
        text = self._client.fetch("/metrics").text
        return [
            (found["name"], dict(_LABEL.findall(found["labels"] or "")), float(found["value"]))
            for line in text.splitlines()
            if (found := _SAMPLE.fullmatch(line)) is not None
        ]
