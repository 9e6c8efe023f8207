"""Objects asked for once, and commands run in containers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from scripted_api import ScriptedApi, page, pod, refusal, scripted_api

from trilens.collect.kubernetes import asked as asked_module
from trilens.collect.kubernetes.api import FORBIDDEN
from trilens.collect.kubernetes.asked import LATE, ObjectQuestions, Wanted
from trilens.collect.kubernetes.informer import Scope
from trilens.collect.kubernetes.pod_exec import PROTOCOL, Ran
from trilens.model.errors import KubeApiError
from trilens.model.kubernetes import GroupKind
from trilens.serve.cases.kinds import CASE_KINDS, NODE, POD, QUEUED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture
async def api() -> AsyncIterator[ScriptedApi]:
    async with scripted_api() as found:
        yield found


@pytest.fixture
async def asked(api: ScriptedApi, tmp_path: Path) -> AsyncIterator[ObjectQuestions]:
    questions = ObjectQuestions("lab", api.access(tmp_path), CASE_KINDS)
    yield questions
    await questions.close()


async def test_whole_objects_in_pages_those_that_are_wanted(api: ScriptedApi, asked: ObjectQuestions) -> None:
    whole = pod("a", nodeName="n1", whatever={"is": ["in", "it"]})
    api.lists.clear()
    api.lists += [page(whole, pod("b"), more="next"), page(pod("c"))]
    (answer,) = await asked.ask([Wanted(POD, Scope(fields="spec.nodeName=n1"), lambda one: one.name != "b")])
    assert [one.name for one in answer.objects] == ["a", "c"]
    assert answer.objects[0].body["spec"] == {"nodeName": "n1", "whatever": {"is": ["in", "it"]}}
    assert [query.get("continue") for query in api.queries(watch=False)] == [None, "next"]
    assert {query["fieldSelector"] for query in api.queries(watch=False)} == {"spec.nodeName=n1"}


async def test_what_may_not_be_read_names_the_rule_and_what_is_not_served_is_none(
    api: ScriptedApi, asked: ObjectQuestions
) -> None:
    api.lists.clear()
    api.lists.append(refusal(403, "pods is forbidden"))
    pods, queued = await asked.ask([Wanted(POD), Wanted(QUEUED)])
    assert (pods.objects, pods.is_served) == ((), True)
    assert str(pods.grant) == 'allow "list" on pods of API group "" in the whole cluster'
    assert (queued.trouble, queued.grant, queued.is_served) == ("", None, False)


async def test_one_object_that_cannot_be_read_does_not_hide_the_others(
    api: ScriptedApi, asked: ObjectQuestions
) -> None:
    api.lists.clear()
    api.lists.append(page(pod("a"), {"metadata": {"name": 7}}))
    (answer,) = await asked.ask([Wanted(POD)])
    assert [one.name for one in answer.objects] == ["a"]
    assert answer.trouble == "1 of them cannot be read"


async def test_a_server_that_is_gone_is_told_of_for_each(asked: ObjectQuestions, api: ScriptedApi) -> None:
    api.forbidden.add("/apis")
    api.documents["/api"] = {"versions": "wrong"}
    answers = await asked.ask([Wanted(POD), Wanted(GroupKind("", "Node"))])
    assert all(one.trouble or not one.objects for one in answers)


class Held:
    """Answers that do not come while the test lasts; what comes before them may."""

    def __init__(self, *before: bytes) -> None:
        self._before = [*before]
        self._end = asyncio.Event()

    async def __call__(self, _request: web.Request) -> web.Response:
        if self._before:
            return web.Response(body=self._before.pop(0))
        await self._end.wait()
        return web.Response()

    def end(self) -> None:
        self._end.set()


@pytest.fixture
def serves_nodes(api: ScriptedApi) -> None:
    verbs = ["list", "watch"]
    served = [("pods", "Pod", True), ("nodes", "Node", False)]
    api.documents["/api/v1"] = {
        "resources": [
            {"name": name, "kind": kind, "namespaced": namespaced, "verbs": verbs}
            for name, kind, namespaced in served
        ]
    }


@pytest.mark.usefixtures("serves_nodes")
@pytest.mark.parametrize("patience", ["of one answer", "of all"])
async def test_one_that_does_not_answer_costs_only_itself(
    api: ScriptedApi, tmp_path: Path, patience: str
) -> None:
    node = {**pod("n1"), "spec": {}}
    held = api.answer_at["/api/v1/nodes"] = Held(page(node, more="next"))
    api.lists.appendleft(page(pod("a")))
    answer_s, until = (
        (0.2, None) if patience == "of one answer" else (60.0, asyncio.get_running_loop().time() + 1)
    )
    asked = ObjectQuestions("lab", api.access(tmp_path), CASE_KINDS, answer_s=answer_s)
    nodes, pods = await asked.ask([Wanted(NODE), Wanted(POD)], until)
    held.end()
    await asked.close()
    assert ([one.name for one in pods.objects], pods.trouble) == (["a"], "")
    assert ([one.name for one in nodes.objects], nodes.trouble) == (["n1"], LATE)  # what came is kept


@pytest.mark.parametrize("fault", ["refuses", "hangs"])
async def test_a_group_whose_own_server_is_down_is_not_taken_for_one_that_is_not_there(
    api: ScriptedApi, tmp_path: Path, fault: str
) -> None:
    version = {"groupVersion": "kueue.x-k8s.io/v1beta1", "version": "v1beta1"}
    api.documents["/apis"] = {"groups": [{"name": "kueue.x-k8s.io", "versions": [version]}]}
    held = Held()

    async def unavailable(_request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": "service unavailable"}, status=503)

    api.answer_at["/apis/kueue.x-k8s.io/v1beta1"] = unavailable if fault == "refuses" else held
    asked = ObjectQuestions(
        "lab", api.access(tmp_path), CASE_KINDS, answer_s=60.0 if fault == "refuses" else 2.0
    )
    queued, pods = await asked.ask([Wanted(QUEUED), Wanted(POD)])
    held.end()
    await asked.close()
    assert queued.is_served
    assert ("service unavailable" if fault == "refuses" else "no answer to /apis/kueue") in queued.trouble
    assert pods.trouble == ""


async def test_what_a_cluster_serves_is_believed_while_it_does_not_say(
    api: ScriptedApi, asked: ObjectQuestions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked_module, "_DISCOVERED_S", -1.0)
    api.lists.appendleft(page(pod("a")))
    api.lists.appendleft(page(pod("a")))
    await asked.ask([Wanted(POD)])
    api.documents["/apis"] = {"groups": "wrong"}
    (answer,) = await asked.ask([Wanted(POD)])
    assert [one.name for one in answer.objects] == ["a"]


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        ({"status": "Success"}, 0),
        ({"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "9"}]}}, 9),
        ({"status": "Failure"}, None),
    ],
    ids=["well", "failed", "untold"],
)
async def test_a_command_in_a_container(
    asked: ObjectQuestions, api: ScriptedApi, ended: dict[str, Any], expected: int | None
) -> None:
    queries = []

    async def run(request: web.Request) -> web.StreamResponse:
        queries.append(request.query)
        socket = web.WebSocketResponse(protocols=(PROTOCOL,))
        await socket.prepare(request)
        await socket.send_bytes(b"\x01GPU 0: NVIDIA H200\n")
        await socket.send_bytes(b"\x02warning\n")
        await socket.send_bytes(b"\x03" + web.json_response(ended).body)  # type: ignore[operator]
        await socket.close()
        return socket

    api.answer_at["/api/v1/namespaces/ml/pods/train-0/exec"] = run
    ran = await asked.run("ml", "train-0", "main", ("nvidia-smi", "-L"), within_s=10)
    assert ran == Ran(expected, "GPU 0: NVIDIA H200\nwarning\n")
    assert queries[0].getall("command") == ["nvidia-smi", "-L"]
    assert queries[0]["container"] == "main"


async def test_a_command_that_may_not_be_run(asked: ObjectQuestions, api: ScriptedApi) -> None:
    api.forbidden.add("/api/v1/namespaces/ml/pods/train-0/exec")
    with pytest.raises(KubeApiError) as refused:
        await asked.run("ml", "train-0", "main", ("nvidia-smi", "-L"), within_s=10)
    assert refused.value.status == FORBIDDEN
