"""What the programs of a case wrote: the ends of its pods' output, from agents."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from trilens.diagnose.case_file import LogKind, LogText
from trilens.model.errors import TrilensError
from trilens.model.verdict import Missing
from trilens.serve.event_answers import ContainerOutput  # noqa: TC001 - msgspec reads annotations

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.model.workload import PodKey
    from trilens.serve.agent_intake import AgentIntake

_AT_ONCE: Final = 16
_MOST_PODS: Final = 1_024
_NAMED: Final = 3
_AGENT: Final = "run trilens agent on its node, and name it in agents.scrape_config"


class _Told(msgspec.Struct):
    uid: str
    containers: list[ContainerOutput]


class Outputs(NamedTuple):
    logs: tuple[LogText, ...]
    untold: Mapping[PodKey, str]  # pods of which no agent told, with the reason; "": it has nothing of them


async def ask_outputs(
    agents: AgentIntake | None, places: Mapping[PodKey, str], ranks: Mapping[PodKey, int], until: float
) -> Outputs:
    """Of the pods that have a node. `ranks` of those that are one rank; `until` by the clock of the loop."""
    there = {pod: node for pod, node in sorted(places.items()) if node}
    if agents is None:
        return Outputs((), dict.fromkeys(there, "no agent is asked"))
    # What a process on a machine wrote is kept nowhere.
    there = {pod: node for pod, node in there.items() if pod.cluster not in agents.names}
    gate = asyncio.Semaphore(_AT_ONCE)
    refused: dict[str, str] = {}

    async def ask(pod: PodKey, node: str) -> list[LogText] | None:
        async with gate:
            if node in refused:
                return None
            try:
                async with asyncio.timeout_at(until):
                    told = await agents.output(pod.cluster, node, pod.namespace, pod.name)
                pods = [one for answer in told for one in msgspec.convert(answer["pods"], list[_Told])]
            except TimeoutError:
                refused[node] = f"the agent of {node} did not answer in time"
                return None
            except TrilensError as e:
                refused[node] = e.message
                return None
            except (KeyError, msgspec.ValidationError) as e:
                refused[node] = f"the agent of {node} answered in a form that is not known: {e}"
                return None
        return [log for one in pods if one.uid == pod.uid for log in _logs(one, pod, node, ranks.get(pod))]

    asked = dict([*there.items()][:_MOST_PODS])
    answers = dict(zip(asked, await asyncio.gather(*map(ask, asked, asked.values())), strict=True))
    untold = {pod: refused.get(there[pod], "") for pod, logs in answers.items() if not logs}
    untold |= dict.fromkeys(there.keys() - asked.keys(), f"only {_MOST_PODS:,} pods are asked for")
    return Outputs(tuple(log for logs in answers.values() for log in logs or ()), untold)


def untold_outputs(untold: Mapping[PodKey, str]) -> tuple[Missing, ...]:
    """What nobody told at all."""
    pods: defaultdict[str, list[str]] = defaultdict(list)
    for pod, why in sorted(untold.items()):
        if why:
            pods[why].append(pod.name)
    return tuple(Missing(f"what {_listed(names)} wrote: {why}", _AGENT) for why, names in pods.items())


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more pods" if more > 0 else "")


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
