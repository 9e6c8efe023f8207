"""What the programs of a case wrote: the ends of its pods' output from agents, and what kernels said."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from trilens.diagnose.case_file import LogKind, LogText
from trilens.model.errors import TrilensError
from trilens.model.event import EventKind
from trilens.model.verdict import Missing
from trilens.serve.event_answers import ContainerOutput  # noqa: TC001 - msgspec reads annotations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.model.event import EventRecord
    from trilens.model.life import MembershipInterval
    from trilens.model.workload import PodKey
    from trilens.serve.agent_intake import AgentIntake

_AT_ONCE: Final = 16
_MOST_PODS: Final = 1_024
_AGENT: Final = "run trilens agent on its node, and name it in agents.scrape_config"
_FAULTS: Final = (EventKind.XID, EventKind.SXID, EventKind.NVLINK)


class _Told(msgspec.Struct):
    uid: str
    containers: list[ContainerOutput]


class Outputs(NamedTuple):
    logs: tuple[LogText, ...]
    missing: tuple[Missing, ...]


async def ask_outputs(
    agents: AgentIntake | None, members: Sequence[MembershipInterval], ranks: Mapping[PodKey, int]
) -> Outputs:
    """Of the pods that have a node. `ranks` of those that are one rank."""
    there = {one.membership.pod: one.node for one in members if one.node}
    if agents is not None:  # what a process on a machine wrote is kept nowhere
        there = {pod: node for pod, node in there.items() if pod.cluster not in agents.names}
    if not there:
        return Outputs((), ())
    if agents is None:
        return Outputs((), (Missing("what its pods wrote: no agent is asked", _AGENT),))
    gate = asyncio.Semaphore(_AT_ONCE)
    refused: dict[str, str] = {}

    async def ask(pod: PodKey, node: str) -> list[LogText]:
        async with gate:
            if node in refused:
                return []
            try:
                told = await agents.output(node, pod.namespace, pod.name)
                pods = [one for answer in told for one in msgspec.convert(answer["pods"], list[_Told])]
            except TrilensError as e:
                refused[node] = e.message
                return []
            except (KeyError, msgspec.ValidationError) as e:
                refused[node] = f"the agent of {node} answered in a form that is not known: {e}"
                return []
        return [log for one in pods if one.uid == pod.uid for log in _logs(one, pod, node, ranks.get(pod))]

    found = await asyncio.gather(*(ask(pod, node) for pod, node in sorted(there.items())[:_MOST_PODS]))
    missing = [Missing(f"what was written on {node}: {why}", _AGENT) for node, why in sorted(refused.items())]
    if len(there) > _MOST_PODS:
        missing.append(Missing(f"what {len(there) - _MOST_PODS} more pods wrote", "ask about one of them"))
    return Outputs(tuple(log for logs in found for log in logs), tuple(missing))


def kernel_logs(events: Iterable[EventRecord]) -> tuple[LogText, ...]:
    """The lines that faults were read from, by node; agents send no others."""
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for event in events:
        if event.kind in _FAULTS and event.node:
            lines[event.node].append(event.text)
    return tuple(
        LogText(LogKind.KERNEL, "kernel", tuple(texts), node, is_cut=True)
        for node, texts in sorted(lines.items())
    )


def _logs(told: _Told, pod: PodKey, node: str, rank: int | None) -> Iterable[LogText]:
    """The run before this one first: what ended it is often why there is another."""
    for container in told.containers:
        for number, run in enumerate(reversed(container.runs), 1):
            is_last = number == len(container.runs)
            name = container.container if is_last else f"{container.container} (run {run.run})"
            yield LogText(LogKind.CONTAINER, name, tuple(run.lines), node, pod, rank, is_cut=True)
        lines = [line for message in container.termination_messages for line in message.splitlines()]
        if lines:
            name = f"{container.container} (last words)"
            yield LogText(LogKind.CONTAINER, name, tuple(lines), node, pod, rank)
