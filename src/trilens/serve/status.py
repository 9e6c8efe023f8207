"""/api/v1/status/*, and the parts of Prometheus's API that Trilens has nothing to say to yet."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import numpy as np
import yaml

from trilens import __version__
from trilens.model.errors import InvalidQuery, PromQLSyntaxError
from trilens.model.labels import METRIC_NAME, LabelFrame, Symbols
from trilens.model.masking import masked
from trilens.promql.parse import prettify
from trilens.serve.envelope import reply
from trilens.serve.params import read_params
from trilens.serve.query_check import checked
from trilens.settings.duration import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.serve.ports import Catalog
    from trilens.serve.reloading import InForce
    from trilens.serve.runner import QueryRunner

T = TypeVar("T")

# Clients such as Grafana turn features on by the Prometheus version they see: this is the one whose language
# and API are spoken here. What follows the plus is who really answers.
_SPEAKS: Final = "3.0.0"


class StatusApi:
    def __init__(self, in_force: Callable[[], InForce], catalog: Catalog | None, runner: QueryRunner) -> None:
        self._in_force = in_force
        self._catalog = catalog
        self._runner = runner
        self._started = datetime.now(UTC)

    async def buildinfo(self, request: Request) -> Response:
        return reply(
            request,
            {
                "version": f"{_SPEAKS}+trilens.{__version__}",
                "revision": "",
                "branch": "",
                "buildUser": "",
                "buildDate": "",
                "goVersion": "",
                "pythonVersion": sys.version.split()[0],
            },
        )

    async def runtimeinfo(self, request: Request) -> Response:
        in_force = self._in_force()
        return reply(
            request,
            {
                "startTime": self._started.isoformat().replace("+00:00", "Z"),
                "CWD": str(Path.cwd()),
                "reloadConfigSuccess": in_force.is_latest,
                "lastConfigTime": in_force.since.isoformat(timespec="seconds").replace("+00:00", "Z"),
                "corruptionCount": 0,
                "goroutineCount": 0,
                "GOMAXPROCS": os.cpu_count() or 1,
                "GOGC": "",
                "GODEBUG": "",
                "storageRetention": format_duration(in_force.settings.storage.retention),
            },
        )

    async def config(self, request: Request) -> Response:
        """The settings in force; secrets are masked."""
        tree = masked(self._in_force().settings.model_dump(mode="json", by_alias=True, exclude_defaults=True))
        return reply(request, {"yaml": yaml.safe_dump(tree, sort_keys=False) if tree else ""})

    async def flags(self, request: Request) -> Response:
        tree = masked(self._in_force().settings.model_dump(mode="json", by_alias=True))
        flat = {
            f"{group}.{key}": _plain(value)
            for group, section in tree.items()
            for key, value in section.items()
            if not isinstance(value, (dict, list))
        }
        return reply(request, flat)

    async def tsdb(self, request: Request) -> Response:
        params = await read_params(request, 0)
        limit = params.count("limit") or 10
        catalog = self._catalog
        if catalog is None:
            return reply(request, cardinality(LabelFrame.empty(Symbols()), limit))
        work = self._runner.run(
            request,
            self._runner.guard(),
            lambda: cardinality(catalog.labels_in_memory(), limit),
        )
        return reply(request, await work)

    async def format_query(self, request: Request) -> Response:
        params = await read_params(request, 1 << 20)
        query = params.first("query")
        try:
            return reply(request, await self._in_thread(request, lambda: prettify(query)))
        except PromQLSyntaxError as e:
            raise InvalidQuery(e) from e

    async def check_query(self, request: Request) -> Response:
        """For who is still writing it: a fault is an answer, and no error."""
        params = await read_params(request, 1 << 20)
        query = params.first("query")
        return reply(request, msgspec.to_builtins(await self._in_thread(request, lambda: checked(query))))

    async def _in_thread(self, request: Request, work: Callable[[], T]) -> T:
        """A long query takes a second to read."""
        return await self._runner.run(request, self._runner.guard(), work)


async def exemplars(request: Request) -> Response:
    return reply(request, [])


def cardinality(frame: LabelFrame, limit: int) -> dict[str, Any]:
    """Which names and values make up the series, largest first."""
    text = frame.symbols.text
    pairs: list[tuple[str, int]] = []
    values_of: list[tuple[str, int]] = []
    metrics: list[tuple[str, int]] = []
    bytes_of: list[tuple[str, int]] = []
    for j, name in enumerate(frame.names):
        codes, counts = np.unique(frame.codes[:, j], return_counts=True)
        codes, counts = codes[codes != 0], counts[codes != 0]
        values_of.append((name, len(codes)))
        texts = [text(code) for code in codes.tolist()]
        bytes_of.append((name, sum(map(len, texts))))
        largest = np.argsort(-counts, kind="stable")[:limit]
        top = [(texts[i], int(counts[i])) for i in largest.tolist()]
        pairs += [(f"{name}={value}", count) for value, count in top]
        if name == METRIC_NAME:
            metrics = top

    def ranked(items: list[tuple[str, int]]) -> list[dict[str, Any]]:
        items = sorted(items, key=lambda item: (-item[1], item[0]))[:limit]
        return [{"name": name, "value": value} for name, value in items]

    return {
        "headStats": {
            "numSeries": len(frame),
            "numLabelPairs": sum(count for _, count in values_of),
        },
        "seriesCountByMetricName": ranked(metrics),
        "labelValueCountByLabelName": ranked(values_of),
        "memoryInBytesByLabelName": ranked(bytes_of),
        "seriesCountByLabelValuePair": ranked(pairs),
    }


def _plain(value: object) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)
