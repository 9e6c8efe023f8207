"""Programs that tell of their runs: which are there, where their metrics are, and what they belong to.

Looked at every few seconds. Their endpoints are scraped, but for those that a job scrapes already because
their pods ask for it, and stand in /api/v1/sd/programs for another Prometheus.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from trilens.collect.config import load_scrape_config
from trilens.collect.current_series import CurrentSeries
from trilens.model.errors import TrilensError
from trilens.model.node import member_name
from trilens.model.program import Program
from trilens.model.workload import PodKey, WorkloadKey
from trilens.resolve.phase_metrics import PhaseSample
from trilens.serve.run_workloads import members_of, process_key
from trilens.serve.scraped_elsewhere import NO_FURTHER, scraped_elsewhere
from trilens.serve.still_shown import series_still_shown
from trilens.serve.workload_metrics import Family, as_series, exposed
from trilens.settings.yaml_file import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from trilens.collect.config import ScrapeConfig
    from trilens.model.run import RankProcess, RunFacts, RunId
    from trilens.model.workload import Membership
    from trilens.serve.event_view import MembershipsOfPods
    from trilens.serve.run_workloads import ProcessKey
    from trilens.serve.scraped_elsewhere import ScrapedPrograms
    from trilens.store.store import Store

log = logging.getLogger(__name__)

_LOOK_S: Final = 5.0
_TELL_S: Final = 15.0
_SOURCE: Final = "runs"
_JOB: Final = "trilens-run"  # the label; the pools are one a run, so that one that begins disturbs no other
_ADDRESS: Final = re.compile(r"[^\s/]{1,255}:[0-9]{1,5}")
_MOST_RUNS: Final = 10_000
_NOWHERE: Final = WorkloadKey("", "", "", "", "", "")

RUN_INFO: Final = "trilens_run_info"
PROCESS_UP: Final = "trilens_run_process_up"
FAMILIES: Final = (
    Family(RUN_INFO, "gauge", "1 for each run that was heard lately, with what it belongs to as labels."),
    Family(PROCESS_UP, "gauge", "Whether the process of a rank lives, for runs that were heard lately."),
)


class KnownRuns(Protocol):
    """Thread-safe."""

    def runs(self, *, since_ms: int | None = None, limit: int = 100) -> Sequence[RunFacts]:
        """Those that began or were heard since."""


class HeardProcesses(Protocol):
    """Thread-safe."""

    def processes(self) -> list[RankProcess]:
        """Those that were heard lately, also those that have ended since."""


class RunPrograms:
    """A thread of its own; everything public may be called from any other."""

    def __init__(
        self,
        heard: HeardProcesses,
        runs: KnownRuns,
        memberships: MembershipsOfPods,
        samples: Store | None,
        scraped: ScrapedPrograms | None,
        also_look: Callable[[], None] | None = None,
    ) -> None:
        """`samples` and `scraped` are None where another server holds the samples. `also_look` is called
        before each look, in the same thread."""
        self._also_look = also_look
        self._heard = heard
        self._runs = runs
        self._memberships = memberships
        self._samples = samples
        self._scraped = scraped
        self._series: CurrentSeries | None = None
        self._programs: list[Program] = []
        self._members: Mapping[ProcessKey, Membership] | None = None
        self._measured: list[PhaseSample] = []
        self._jobs: list[ScrapeConfig] = []
        self._no_addresses: set[str] = set()
        self._told_s = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trilens-runs", daemon=True)

    def start(self) -> None:
        if self._samples is not None:
            for family in FAMILIES:
                self._samples.describe(family.metric, family.kind, family.help, "")
            names = [family.metric for family in FAMILIES]
            shown = series_still_shown(self._samples, names, "", _now_ms())
            self._series = CurrentSeries(self._samples, shown)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def programs(self) -> list[Program]:
        return list(self._programs)

    def members(self) -> Mapping[ProcessKey, Membership] | None:
        """What the processes that were heard lately are in, as of the last look; None before the first."""
        return self._members

    def unread(self) -> list[str]:
        return []

    def metrics(self) -> Iterator[Metric]:
        return exposed(self._measured, FAMILIES)

    def look(self) -> None:
        processes = _latest(self._heard.processes())
        members = self._members = members_of(processes, self._memberships)
        alive = [process for process in processes if process.ending is None and self._has_address(process)]
        self._programs = [_program(process, members.get(process_key(process))) for process in alive]
        self._scrape(alive)
        up = (_process_up(process, members.get(process_key(process))) for process in processes)
        measured = [*self._run_info(processes, members), *up]
        changed, self._measured = measured != self._measured, measured
        if self._series is not None and (changed or time.monotonic() >= self._told_s + _TELL_S):
            self._series.write(as_series(measured), _now_ms())
            self._told_s = time.monotonic()

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_S):
            try:
                if self._also_look is not None:
                    self._also_look()
                self.look()
            except TrilensError as e:
                log.warning("programs are looked at again soon", extra={"error": str(e)})
            except Exception:
                log.exception("looking at programs failed in a way that was not foreseen")

    def _has_address(self, process: RankProcess) -> bool:
        """What one program says wrong must not keep others from being scraped."""
        told = process.metrics_address
        if not told:
            return False
        if _ADDRESS.fullmatch(told):
            return True
        if told not in self._no_addresses and len(self._no_addresses) < _MOST_RUNS:
            self._no_addresses.add(told)
            log.warning("not host:port, so not scraped", extra={"run": process.run, "address": told[:100]})
        return False

    def _scrape(self, processes: Iterable[RankProcess]) -> None:
        if self._scraped is None:
            return
        scraping, jobs, defaults = self._scraped
        others = scraped_elsewhere(scraping, _JOB)
        of_run: defaultdict[RunId, list[RankProcess]] = defaultdict(list)
        for process in processes:
            if process.metrics_address not in others:
                of_run[process.run].append(process)
        wanted = [_job(run, told, defaults) for run, told in sorted(of_run.items())]
        if wanted != self._jobs:
            jobs.found(_SOURCE, wanted)
            self._jobs = wanted

    def _run_info(
        self, processes: Sequence[RankProcess], members: Mapping[ProcessKey, Membership]
    ) -> Iterator[PhaseSample]:
        if not processes:
            return
        workloads: dict[RunId, WorkloadKey] = {}
        for process in processes:
            member = members.get(process_key(process))
            if member is not None or process.run not in workloads:
                workloads[process.run] = member.workload if member is not None else _NOWHERE
        since_ms = min(process.heard_ms for process in processes)
        known = {one.run: one for one in self._runs.runs(since_ms=since_ms, limit=_MOST_RUNS)}
        for run, workload in workloads.items():
            facts = known.get(run)
            labels = {
                "run": run,
                "name": (facts.name if facts is not None else None) or "",
                "experiment": (facts.experiment if facts is not None else None) or "",
                "cluster": workload.cluster,
                "namespace": workload.namespace,
                "workload": workload.name,
                "kind": workload.kind,
            }
            yield PhaseSample(RUN_INFO, labels, 1.0)


def _latest(processes: Iterable[RankProcess]) -> list[RankProcess]:
    """Of each rank: those before it have ended, or nobody would have begun it again."""
    latest: dict[tuple[RunId, int], RankProcess] = {}
    for process in sorted(processes, key=lambda one: (one.run, one.rank, one.attempt)):
        latest[process.run, process.rank] = process
    return list(latest.values())


def _process_up(process: RankProcess, member: Membership | None) -> PhaseSample:
    labels = {
        "run": process.run,
        "rank": str(process.rank),
        "node": process.node,
        "cluster": member.pod.cluster if member is not None else process.cluster or "",
        "namespace": process.namespace or "",
        "pod": process.pod or "",
    }
    return PhaseSample(PROCESS_UP, labels, 1.0 if process.ending is None else 0.0)


def _program(process: RankProcess, member: Membership | None) -> Program:
    if member is not None:
        pod, workload, attempt = member.pod, member.workload, member.attempt
    else:
        name = process.pod or member_name(process.node, process.run, process.pid or 0)
        pod = PodKey(process.cluster or "", process.namespace or "", name, process.pod_uid or "")
        workload, attempt = _NOWHERE, process.attempt
    return Program(
        address=process.metrics_address or "",
        pod=pod,
        workload=workload,
        attempt=attempt,
        node=process.node,
        role=member.role if member is not None else "",
        container=process.container or "",
        node_rank=member.node_rank if member is not None else None,
        rank=process.rank,
    )


def _job(run: RunId, processes: Iterable[RankProcess], defaults: dict[str, Any]) -> ScrapeConfig:
    section = {
        "static_configs": [
            {"targets": [process.metrics_address], "labels": _target_labels(process)} for process in processes
        ],
        "relabel_configs": [{"target_label": "job", "replacement": _JOB}],
    }
    job = load_scrape_config(section, Path(), Place(None), f"{_JOB}/{run}", defaults)
    return job.model_copy(update=NO_FURTHER)


def _target_labels(process: RankProcess) -> dict[str, str]:
    facts = {
        "cluster": process.cluster,
        "namespace": process.namespace,
        "pod": process.pod,
        "container": process.container,
        "node": process.node,
        "run": process.run,
    }
    return {name: value for name, value in facts.items() if value}


def _now_ms() -> int:
    return int(time.time() * 1000)
