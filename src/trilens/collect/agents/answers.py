"""What agents answer, as the types that the rest of Trilens speaks of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from trilens.model.errors import ScrapeError
from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.gpu import GpuKey
from trilens.model.node import Hardware, LocalJob, LocalProcess, NodeJobs, Restarts, member_name, member_uid
from trilens.model.workload import GpuUuid, WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Iterable


class Events(NamedTuple):
    ledger: str  # whose numbers these are
    events: tuple[EventRecord, ...]
    waits: bool = False  # whether the agent knows how to wait for the next one


def read_json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as e:
        raise ScrapeError("the answer is not JSON: is it an agent of Trilens?") from e
    if not isinstance(found, dict):
        raise ScrapeError("the answer is not an object: is it an agent of Trilens?")
    return found


def read_events(answer: dict[str, Any]) -> Events:
    try:
        ledger = str(answer["ledger"])
        told = tuple(_event(entry, ledger) for entry in answer["events"])
        return Events(ledger, told, answer.get("waits") is True)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise _not_understood("events", e) from e


def read_processes(answer: dict[str, Any]) -> NodeJobs:
    try:
        by_pid: dict[int, list[dict[str, Any]]] = {}
        for use in answer["processes"]:
            by_pid.setdefault(int(use["pid"]), []).append(use)
        jobs = tuple(_job(entry, by_pid) for entry in answer["workloads"])
        return NodeJobs(str(answer["node"]), jobs, _hardware(answer.get("hardware") or {}))
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise _not_understood("processes", e) from e


def _hardware(told: dict[str, Any]) -> Hardware:
    """Agents from before the ledger tell nothing of it."""
    cpus, memory = told.get("cpus"), told.get("memory_bytes")
    return Hardware(int(cpus) if cpus else None, int(memory) if memory else None)


def _not_understood(what: str, error: Exception) -> ScrapeError:
    return ScrapeError(f"the {what} are not in the form that this version knows: {error!r}")


def _job(entry: dict[str, Any], by_pid: dict[int, list[dict[str, Any]]]) -> LocalJob:
    processes = (_process(uses[0]["process"], uses) for uses in (by_pid[int(pid)] for pid in entry["pids"]))
    return LocalJob(_key(entry), tuple(processes))


def _key(entry: dict[str, Any]) -> WorkloadKey:
    names = ("namespace", "group", "kind", "name", "uid")
    # A name is a part of paths, and whoever starts a job may put a slash into it; the uid stays as it is.
    namespace, group, kind, name, uid = (str(entry[name]) for name in names)
    return WorkloadKey("", namespace, group, kind, name.replace("/", "-"), uid)


def _process(told: dict[str, Any], uses: list[dict[str, Any]]) -> LocalProcess:
    """`uses`: the GPUs that it is on, one or several."""
    environment = told["environment"]
    return LocalProcess(
        int(told["pid"]),
        str(told["name"]),
        int(told["started_ms"]),
        told["rank"],
        told["local_rank"],
        Restarts(
            _count(environment.get("SLURM_RESTART_COUNT")),
            _count(environment.get("TORCHELASTIC_RESTART_COUNT")),
        ),
        tuple(dict.fromkeys(_gpu(use) for use in uses)),
    )


def _gpu(use: dict[str, Any]) -> GpuKey:
    instance = use["gpu_instance"]
    return GpuKey(GpuUuid(use["uuid"]), "" if instance is None else str(instance))


def _count(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0


def _event(entry: dict[str, Any], ledger: str) -> EventRecord:
    process, number, node = entry["process"], int(entry["number"]), str(entry["node"])
    job = entry.get("workload")  # of an agent that tells it
    return EventRecord(
        node=node,
        id=entry.get("id") or f"{ledger}:{number}",  # of an agent from before lines had one
        t_ms=int(entry["t_ms"]),
        kind=EventKind(entry["kind"]),
        code=entry["code"],
        text=str(entry["text"]),
        title=entry["title"],
        asks=entry["asks"],
        uuid=entry["uuid"],
        gpu=entry["gpu"],
        pci=entry["pci"],
        pid=entry["pid"],
        process=entry["process_name"] or (process["name"] if process else None),
        rank=process["rank"] if process else None,
        victims=tuple(_victims(node, entry["pods"], process)),
        ledger=ledger,
        number=number,
        job=LocalJob(_key(job), (_process(process, []),)) if job and process else None,
    )


def _victims(node: str, pods: list[dict[str, Any]], process: dict[str, Any] | None) -> Iterable[Victim]:
    for pod in pods:
        yield Victim(pod.get("namespace") or "", pod.get("pod") or "", pod.get("uid") or "")
    if process is not None and not process["pod_uid"]:
        pid = int(process["pid"])
        uid = member_uid(node, pid, int(process["started_ms"]))
        yield Victim(process["user"] or "", member_name(node, str(process["name"]), pid), uid)
