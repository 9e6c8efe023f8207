"""Servers of models that tell of themselves, at /api/v1/programs/heartbeat: where their metrics are.

They are scraped, but for those that a job scrapes already, and stand in /api/v1/sd/programs. Kept in memory
alone: one that lives tells again soon. They are no runs.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
from starlette.responses import Response

from trilens.collect.cluster_bound import own_cluster
from trilens.collect.config import load_scrape_config
from trilens.model.errors import RequestError, TrilensError
from trilens.model.node import member_name
from trilens.model.program import Program
from trilens.model.workload import PodKey, WorkloadKey
from trilens.serve.access.told_addresses import teller_of
from trilens.serve.envelope import JSON, success
from trilens.serve.params import read_body
from trilens.serve.routes import identity_of
from trilens.serve.scraped_elsewhere import NO_FURTHER, scraped_elsewhere
from trilens.settings.yaml_file import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette.requests import Request

    from trilens.collect.config import ScrapeConfig
    from trilens.serve.access.told_addresses import ToldAddresses
    from trilens.serve.scraped_elsewhere import ScrapedPrograms

log = logging.getLogger(__name__)

_MOST: Final = 20_000
_MOST_OF_ONE: Final = 10_000  # of one identity, so that a sender leaves room to others
_LOOK_S: Final = 5.0
_BEATS_MISSED: Final = 3  # until one is taken for gone
_SOURCE: Final = "serving programs"
_JOB: Final = "trilens-serving"  # the label; the pools are one a program, so that none disturbs another
_MAX_BODY: Final = 64 * 1024
_NOWHERE: Final = WorkloadKey("", "", "", "", "", "")

Text = Annotated[str, msgspec.Meta(max_length=300)]
Address = Annotated[
    str, msgspec.Meta(pattern=r"^([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}$", max_length=300)
]


class ServingProcess(msgspec.Struct, frozen=True):
    """As it tells itself. Empty and null are "it does not know"."""

    address: Address  # host:port of its /metrics, as others reach it
    node: Text = ""
    pid: int | None = None
    cluster: Text | None = None
    namespace: Text | None = None
    pod: Text | None = None
    pod_uid: Text | None = None
    container: Text | None = None
    heartbeat_s: Annotated[float, msgspec.Meta(gt=0, le=600)] = 15.0


class _Heard(NamedTuple):
    process: ServingProcess
    gone_s: float  # when it is taken for gone
    by: str


class ServingPrograms:
    """A thread of its own; everything public may be called from any other."""

    def __init__(
        self,
        scraped: ScrapedPrograms | None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`scraped` is None where another server holds the samples."""
        self._scraped = scraped
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._heard: dict[tuple[str, str], _Heard] = {}  # one at each address in each cluster
        self._jobs: list[ScrapeConfig] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trilens-serving", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def heard(self, process: ServingProcess, by: str = "") -> None:
        """`by` is who sent it."""
        place = process.address, process.cluster or ""
        with self._lock:
            if place not in self._heard:
                self._check_room(by)
            gone_s = self._clock_s() + _BEATS_MISSED * process.heartbeat_s
            self._heard[place] = _Heard(process, gone_s, by)

    def _check_room(self, by: str) -> None:
        of_one = sum(one.by == by for one in self._heard.values())
        if of_one >= _MOST_OF_ONE or len(self._heard) >= _MOST:
            most = _MOST_OF_ONE if of_one >= _MOST_OF_ONE else _MOST
            raise RequestError(f"more than {most:,} serving programs", hint="let a Prometheus find them")

    def programs(self) -> list[Program]:
        return [_program(process) for process in self._alive()]

    def unread(self) -> list[str]:
        return []

    def look(self) -> None:
        if self._scraped is None:
            return
        scraping, jobs, defaults = self._scraped
        alive = sorted(self._alive(), key=lambda one: (one.address, one.cluster or ""))
        others = scraped_elsewhere(scraping, _JOB) if alive else set()
        wanted = [_job(process, defaults) for process in alive if process.address not in others]
        if wanted != self._jobs:
            jobs.found(_SOURCE, wanted)
            self._jobs = wanted

    def _alive(self) -> Iterable[ServingProcess]:
        now_s = self._clock_s()
        with self._lock:
            self._heard = {place: one for place, one in self._heard.items() if one.gone_s > now_s}
            return [one.process for one in self._heard.values()]

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                self.look()
            except TrilensError as e:
                log.warning("serving programs are looked at again soon", extra={"error": str(e)})
            except Exception:
                log.exception("looking at serving programs failed in a way that was not foreseen")


class HeartbeatApi:
    def __init__(self, programs: ServingPrograms, told: ToldAddresses) -> None:
        self._programs = programs
        self._told = told

    async def take(self, request: Request) -> Response:
        body = await read_body(request, _MAX_BODY)
        try:
            process = msgspec.json.decode(body, type=ServingProcess)
        except (msgspec.DecodeError, UnicodeDecodeError) as e:
            raise RequestError(f"no heartbeat of a program: {e}") from e
        identity = identity_of(request)
        cluster, clusters = process.cluster or "", identity.grant.clusters
        if clusters is not None:
            cluster = own_cluster(cluster, clusters)
        pod = PodKey(cluster, process.namespace or "", process.pod or "", process.pod_uid or "")
        address = await self._told.admitted(process.address, teller_of(request, pod))
        process = msgspec.structs.replace(process, address=address, cluster=cluster or None)
        self._programs.heard(process, f"{identity.how} {identity.name}")
        return Response(success(b"null"), media_type=JSON)


def _program(process: ServingProcess) -> Program:
    name = process.pod or member_name(process.node, "serving", process.pid or 0)
    pod = PodKey(process.cluster or "", process.namespace or "", name, process.pod_uid or "")
    return Program(
        process.address,
        pod,
        _NOWHERE,
        0,
        node=process.node,
        role="serving",
        container=process.container or "",
    )


def _job(process: ServingProcess, defaults: dict[str, Any]) -> ScrapeConfig:
    told = {
        "cluster": process.cluster,
        "namespace": process.namespace,
        "pod": process.pod,
        "container": process.container,
        "node": process.node,
    }
    labels = {name: value for name, value in told.items() if value}
    section = {
        "static_configs": [{"targets": [process.address], "labels": labels}],
        "relabel_configs": [{"target_label": "job", "replacement": _JOB}],
    }
    # Two clusters may have one address: neither takes the other's place.
    place = "/".join(filter(None, (process.cluster, process.address)))
    job = load_scrape_config(section, Path(), Place(None), f"{_JOB}/{place}", defaults)
    return job.model_copy(update=NO_FURTHER)
