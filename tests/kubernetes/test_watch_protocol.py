"""What an API server may say on a list or a watch, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from scripted_api import Answer, ScriptedApi, event, page, pod, refusal, scripted_api
from watching import IMPATIENT, RecordingSink, watching

from trilens.collect.kubernetes import api as api_module
from trilens.collect.kubernetes.api import KubeApi
from trilens.collect.kubernetes.backoff import Backoff
from trilens.model.errors import KubeApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from trilens.model.kubernetes import KubeObject


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApi]:
    async with scripted_api() as api:
        yield api


async def test_a_watch_goes_on_from_the_last_bookmark(server: ScriptedApi, tmp_path: Path) -> None:
    server.lists[0] = page(pod("a"), version=10)
    server.watches += [
        event("BOOKMARK", {"metadata": {"resourceVersion": "50"}}),
        event("ADDED", pod("b", 60)) + event("MODIFIED", pod("a", 61, nodeName="n")),
    ]
    async with watching(server.access(tmp_path), only=["Pod"]) as cluster:
        await cluster.until_watched("Pod", times=3)
        asked = server.queries(watch=True)
        assert [query["resourceVersion"] for query in asked[:3]] == ["10", "50", "61"]
        assert all(query["allowWatchBookmarks"] == "true" for query in asked)
        assert cluster.sink.names("Pod", "default") == {"a", "b"}
        assert len(server.queries(watch=False)) == 1, "nothing had to be read again"


@pytest.mark.parametrize(
    "broken",
    [
        event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"}),
        event("ERROR", {"kind": "Status", "code": 500, "message": "etcd is unwell"}),
        refusal(410, "too old resource version"),
        refusal(504, "Too large resource version: 10, current: 3"),  # etcd was put back to an old state
        b'{"type": "ADDED", "object": {"metadata"\n',
        b"\xff\xfe\n",
        b"[]\n",
        b'{"type": "ADDED", "object": "' + b"x" * 5000,
    ],
    ids=["410", "500", "410 at once", "from the future", "half JSON", "not UTF-8", "no event", "too large"],
)
async def test_history_that_is_lost_is_read_again(
    server: ScriptedApi, tmp_path: Path, broken: bytes | Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_module, "_LINE_LIMIT", 4000)
    server.lists.clear()
    server.lists += [page(pod("a"), pod("b"), version=10), page(pod("b"), pod("c"), version=20)]
    server.watches.append(broken)
    async with watching(server.access(tmp_path), only=["Pod"]) as cluster:
        sink = cluster.sink
        await sink.until(lambda: sink.synced_kinds.count("Pod") == 2)
        assert sink.names("Pod", "default") == {"b", "c"}
        assert sink.history("Pod", "a", "b") == [("changed", "a"), ("changed", "b"), ("removed", "a")]
        await cluster.until_state(lambda: len(server.queries(watch=True)) == 2)
        assert server.queries(watch=True)[1]["resourceVersion"] == "20"


@pytest.mark.parametrize("code", [429, 503])
async def test_a_server_that_is_busy_has_not_lost_history(
    server: ScriptedApi, tmp_path: Path, code: int
) -> None:
    server.watches += [refusal(code, "later"), event("ADDED", pod("b", 11))]
    async with watching(server.access(tmp_path), only=["Pod"]) as cluster:
        await cluster.sink.until(lambda: "b" in cluster.sink.names("Pod", "default"))
        assert len(server.queries(watch=False)) == 1


async def test_a_list_that_expires_between_its_pages_is_begun_again(
    server: ScriptedApi, tmp_path: Path
) -> None:
    server.lists.clear()
    server.lists += [
        page(pod("a"), more="token-1"),
        refusal(410, "The provided continue parameter is too old"),
        page(pod("b"), more="token-2"),
        page(pod("c")),
    ]
    async with watching(server.access(tmp_path), only=["Pod"]) as cluster:
        sink = cluster.sink
        await cluster.until_synced("Pod")
        assert sink.names("Pod", "default") == {"b", "c"}, "a was seen at first, and is gone"
        tokens = [query.get("continue") for query in server.queries(watch=False)]
        assert tokens == [None, "token-1", None, "token-2"]
        assert cluster.resource("Pod").readings == 1


async def test_what_cannot_be_read_is_counted_and_the_rest_is_taken(
    server: ScriptedApi, tmp_path: Path
) -> None:
    nameless = {"metadata": {"uid": "x"}}
    server.lists[0] = page(pod("a"), nameless)
    server.watches.append(
        event("ADDED", nameless) + event("SOMETHING-NEW", {}) + event("ADDED", pod("b", 12))
    )
    async with watching(server.access(tmp_path), only=["Pod"]) as cluster:
        await cluster.sink.until(lambda: cluster.sink.names("Pod", "default") == {"a", "b"})
        assert cluster.resource("Pod").malformed == 3
        assert cluster.resource("Pod").readings == 1


@pytest.mark.parametrize(
    "broken",
    [b"<html>", Answer(b"<html>a proxy</html>", 502), refusal(429, "too many requests"), b'{"items": 1}'],
    ids=["HTML", "502", "429", "no list"],
)
async def test_a_list_that_fails_is_asked_for_again(
    server: ScriptedApi, tmp_path: Path, broken: bytes | Answer
) -> None:
    server.lists.clear()
    server.lists += [broken, page(pod("a"))]
    async with watching(server.access(tmp_path), only=["Pod"]) as cluster:
        await cluster.until_watched("Pod")
        assert cluster.sink.names("Pod", "default") == {"a"}
        assert cluster.resource("Pod").trouble is None


async def test_the_server_says_how_long_to_wait(server: ScriptedApi, tmp_path: Path) -> None:
    server.lists[0] = refusal(429, "too many requests", **{"Retry-After": "7"})
    api = KubeApi(server.access(tmp_path))
    with pytest.raises(KubeApiError, match="too many requests") as refused:
        await api.get("/api/v1/pods")
    await api.close()
    assert (refused.value.status, refused.value.retry_after_s) == (429, 7.0)
    assert Backoff(0.1, 1.0).next_s(at_least_s=7.0) == 7.0


def test_waiting_doubles_up_to_a_limit_and_differs_each_time() -> None:
    backoff = Backoff(1.0, 4.0)
    for expected in (1.0, 2.0, 4.0, 4.0):
        assert expected * 0.5 <= backoff.next_s() <= expected * 1.5
    backoff.reset()
    assert backoff.next_s() <= 1.5
    assert len({Backoff(1.0, 4.0).next_s() for _ in range(10)}) > 1


async def test_an_object_that_nobody_can_handle_does_not_end_the_watch(
    server: ScriptedApi, tmp_path: Path
) -> None:
    class Fussy(RecordingSink):
        def changed(self, obj: KubeObject) -> None:
            if obj.name == "bad":
                raise ValueError(obj.name)
            super().changed(obj)

    server.lists[0] = page(pod("bad"), pod("good"))
    server.watches.append(event("ADDED", pod("later", 11)))
    async with watching(server.access(tmp_path), only=["Pod"], sink=Fussy()) as cluster:
        await cluster.sink.until(lambda: cluster.sink.names("Pod", "default") == {"good", "later"})
        assert cluster.state().not_taken == 1
        assert cluster.resource("Pod").trouble is None


async def test_discovery_that_is_not_allowed_leaves_what_every_cluster_has(
    server: ScriptedApi, tmp_path: Path
) -> None:
    server.forbidden.add("/apis")
    server.lists[0] = page(pod("a"))
    async with watching(server.access(tmp_path), only=["Pod", "RayJob.ray.io"]) as cluster:
        await cluster.until_synced("Pod")
        assert cluster.sink.names("Pod", "default") == {"a"}
        trouble = cluster.state().trouble
        assert trouble is not None
        assert "system:discovery" in trouble.text

        server.forbidden.clear()
        await cluster.until_state(lambda: cluster.state().trouble is None)
        assert cluster.resource("Pod").readings == 1


async def test_a_proxy_that_answers_for_the_cluster_does_not_have_its_objects_removed(
    server: ScriptedApi, tmp_path: Path
) -> None:
    server.lists[0] = page(pod("a"))
    timing = replace(IMPATIENT, gone_after_s=0.0, discovery_s=0.05)
    async with watching(server.access(tmp_path), only=["Pod"], timing=timing) as cluster:
        await cluster.until_synced("Pod")
        server.documents = {"/apis": {}, "/api": {}}
        await cluster.until_state(lambda: cluster.state().trouble is not None)
        asked = len(server.asked)
        await cluster.until_state(lambda: len(server.asked) > asked + 2)
        assert cluster.sink.names("Pod", "default") == {"a"}
        trouble = cluster.state().trouble
        assert trouble is not None
        assert "/apis gave no discovery document" in trouble.text
        server.documents = {}
        await cluster.until_state(lambda: cluster.state().trouble is None)
        assert cluster.resource("Pod").readings == 1


@pytest.mark.parametrize("believed_after_s", [0.0, 3600.0])
async def test_a_kind_that_discovery_misses_is_gone_only_when_it_stays_away(
    server: ScriptedApi, tmp_path: Path, believed_after_s: float
) -> None:
    """A server that restarts does not know all of its kinds at once."""
    server.lists[0] = page(pod("a"))
    timing = replace(IMPATIENT, gone_after_s=believed_after_s, discovery_s=0.05)
    async with watching(server.access(tmp_path), only=["Pod"], timing=timing) as cluster:
        await cluster.until_synced("Pod")
        server.serves_pods = False
        if believed_after_s:
            asked = len(server.asked)
            await cluster.until_state(lambda: len(server.asked) > asked + 6)
            assert cluster.sink.names("Pod", "default") == {"a"}
        else:
            await cluster.sink.until(lambda: not cluster.sink.objects)
            assert not cluster.state().resources
        server.serves_pods = True
        await cluster.until_state(lambda: len(cluster.state().resources) == 1)
        await cluster.sink.until(lambda: cluster.sink.names("Pod", "default") == {"a"})


async def test_who_may_list_and_not_watch_sees_changes_by_reading_again(
    server: ScriptedApi, tmp_path: Path
) -> None:
    server.lists.clear()
    server.lists += [page(pod("a")), page(pod("b"))]
    server.watches += [refusal(403, "pods is forbidden")] * 1000
    async with watching(server.access(tmp_path), only=["Pod"]) as cluster:
        sink = cluster.sink
        await sink.until(lambda: sink.names("Pod", "default") == {"b"})
        await cluster.until_state(lambda: cluster.resource("Pod").trouble is not None)
        assert [str(grant) for grant in cluster.state().grants] == [
            'allow "watch" on pods of API group "" in the whole cluster'
        ]
        assert cluster.state().synced
        assert (
            "test: cannot follow Pod: pods is forbidden; "
            'allow "watch" on pods of API group "" in the whole cluster'
        ) in cluster.state().complaints()
