"""/api/output: the end of what a pod wrote, passed on from the agent of its node."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.errors import NotFound, RequestError, ScrapeError
from trilens.serve.access.seen_workloads import seen_workloads
from trilens.serve.access.sight import sight_of
from trilens.serve.envelope import accepts_gzip, pack, packed_response, success
from trilens.serve.event_answers import ContainerOutput, PodOutputAnswer
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.life import MembershipInterval
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.agent_intake import AgentIntake
    from trilens.serve.questions import Questions

_HINT: Final = "trilens workloads and trilens show name the pods"


class OutputApi:
    """`agents` is None where none is asked."""

    def __init__(self, records: Workloads, agents: AgentIntake | None, questions: Questions) -> None:
        self._records = records
        self._agents = agents
        self._questions = questions

    async def of_pod(self, request: Request) -> Response:
        params = await self._questions.params(request)
        cluster, namespace, pod = (params.first(name) for name in ("cluster", "namespace", "pod"))
        if not namespace or not pod:
            raise RequestError("namespace and pod must be given", hint=_HINT)
        runner, sight = self._questions.runner, sight_of(request)
        guard, records = runner.guard(), seen_workloads(self._records, sight)

        def find() -> MembershipInterval:
            span = Span(0, time.time_ns() // 1_000_000)
            return _the_one(records.members_among([(namespace, pod, "")], span, guard), cluster, pod)

        found = await runner.run(request, guard, find)
        member = found.membership.pod
        if self._agents is None:
            raise NotFound("no agent is asked, and agents have the output", hint="see agents.scrape_config")
        if member.cluster in self._agents.names:
            raise NotFound(
                f"{pod} is a process, and its output is kept nowhere",
                hint="output is read from the kubelet's files; look where it was started",
            )
        if not found.node:
            raise NotFound(f"{namespace}/{pod} has no node yet")
        told = await self._agents.output(member.cluster, found.node, namespace, pod)
        try:
            pods = [one for answer in told for one in msgspec.convert(answer["pods"], list[_Told])]
        except (KeyError, msgspec.ValidationError) as e:
            raise ScrapeError(f"the agent of {found.node} answered in a form that is not known: {e}") from e
        if len(told) > 1 or not sight.is_whole:  # a pod of that name may have been another's before
            pods = [one for one in pods if one.uid == member.uid]
        answer = [
            PodOutputAnswer(member.cluster, namespace, pod, one.uid, found.node, one.containers)
            for one in pods
        ]
        if not answer:
            raise NotFound(
                f"the agent of {found.node} has no output of {namespace}/{pod}",
                hint="it is read for pods that are there and have a GPU",
            )
        body = success(msgspec.json.encode(answer), sight.warnings(self._agents.warnings()))
        return packed_response(pack(body, accepts_gzip(request)))


class _Told(msgspec.Struct):
    uid: str
    containers: list[ContainerOutput]


def _the_one(known: list[MembershipInterval], cluster: str, pod: str) -> MembershipInterval:
    """The latest of that name."""
    found = [one for one in known if cluster in ("", one.membership.pod.cluster)]
    clusters = sorted({one.membership.pod.cluster for one in found})
    if not found:
        raise NotFound(f"no pod {pod!r} of a workload is known", hint=_HINT)
    if len(clusters) > 1:
        raise RequestError(f"{pod!r} may be in any of {', '.join(clusters)}", hint="give the cluster")
    return max(found, key=lambda one: one.from_ms)
