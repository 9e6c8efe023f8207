"""What becomes of intents after a kill, of faults over restarts, in quiet times and without permission; and a
restart through an operator. On a real API server and a real store."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cure_bench import (
    HOME,
    POLICY,
    RAY_JOBS,
    VOLCANO_COMMANDS,
    VOLCANO_JOBS,
    Bench,
    begun,
    node_target,
    now_ms,
    xid,
)

from kubernetes_api import Rule
from kubernetes_client import CRDS, NAMESPACES, NODES, PODS
from servers import until
from trilens.collect.kubernetes.catalogue import choose
from trilens.collect.kubernetes.intake import access_to
from trilens.collect.kubernetes.rbac import fix_manifests
from trilens.collect.kubernetes.writes import ObjectWrites
from trilens.diagnose.cure.restarts import restartable
from trilens.model.errors import KubeApiError, NotFound, RequestError
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.fix import Deed, Fix, FixState, FixTarget, fix_id
from trilens.serve.cases.kinds import CASE_KINDS
from trilens.serve.cure.told import Told
from trilens.settings.kubernetes import ClusterSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes_api import KubernetesServer
    from kubernetes_client import KubernetesClient
    from trilens.serve.cure.keeper import CureKeeper

OPERATORS = (RAY_JOBS, VOLCANO_JOBS, VOLCANO_COMMANDS)


@pytest.fixture(scope="module")
def admin(kubernetes: KubernetesServer) -> Iterator[KubernetesClient]:
    """With the kinds of operators, and a namespace for their objects."""
    client = kubernetes.client()
    client.create(NAMESPACES, {"metadata": {"name": HOME}})
    for kind in OPERATORS:
        client.define(kind)
    yield client
    for kind in OPERATORS:
        client.delete(CRDS, f"{kind.plural}.{kind.group}")


def figure(keeper: CureKeeper, name: str, **labels: str) -> float | None:
    """One that is not told is None."""
    samples = (sample for family in keeper.metrics() for sample in family.samples)
    return next((one.value for one in samples if (one.name, one.labels) == (name, labels)), None)


def test_what_was_begun_before_a_kill_is_settled(bench: Bench, admin: KubernetesClient) -> None:
    undone, done, anns, old = (begun(bench.node(n)) for n in range(4))
    anns, old = replace(anns, by="ann"), replace(old, t_ms=now_ms() - 3_600_000)
    mark = {"spec": {"unschedulable": True}, "metadata": {"annotations": {"trilens/fix": done.id}}}
    admin.patch(NODES, done.target.name, mark)
    for one in (undone, done, anns, old):
        bench.store.fixes.put(one)
    assert bench.fix(undone.id)
    with bench.keeper():
        assert bench.comes_to(undone.id, FixState.DONE).after == {"unschedulable": True}
        assert "found done" in bench.comes_to(done.id, FixState.DONE).result
        assert "ended before" in bench.comes_to(anns.id, FixState.FAILED).result
        bench.comes_to(old.id, FixState.FAILED)
    names = [one.target.name for one in (undone, done, anns, old)]
    assert [bench.is_closed(name) for name in names] == [True, True, False, False]


def test_a_fault_closes_the_node_of_its_own_cluster(bench: Bench) -> None:
    spared, broken = bench.node(), bench.node(1)
    with bench.keeper() as keeper:
        keeper.take_event(xid(spared, 79, cluster="elsewhere"))
        keeper.take_event(xid(broken, 79, cluster="lab"))
        bench.comes_to(fix_id("event", "lab", broken, "e1"), FixState.DONE)
    assert (bench.is_closed(spared), bench.is_closed(broken)) == (False, True)


def test_a_fault_is_answered_once_over_restarts(bench: Bench, admin: KubernetesClient) -> None:
    """It was kept, and Trilens was ended before it was answered; then somebody uncordons the node."""
    node = bench.node()
    event = xid(node, 79)
    bench.store.events.event(event)
    bench.store.events.event(xid(node, 79, "old", t_ms=now_ms() - 3_600_000))
    assert bench.store.fixes.settled(5)
    id = fix_id("event", node, event.id)
    with bench.keeper():
        bench.comes_to(id, FixState.DONE)
    assert bench.is_closed(node)
    admin.patch(NODES, node, {"spec": {"unschedulable": None}})
    other = bench.node(1)
    with bench.keeper() as keeper:
        keeper.take_event(event)
        keeper.take_event(xid(other, 79))  # answered after it
        bench.comes_to(fix_id("event", other, "e1"), FixState.DONE)
    assert not bench.is_closed(node)
    assert bench.fix(fix_id("event", node, "old")) is None


def test_quiet_times_and_one_that_waits_is_dropped_for_one_that_is_done(bench: Bench) -> None:
    node = bench.node()
    quiet = POLICY.model_copy(update={"quiet": ("00:00-24:00",)})
    waits, comes = fix_id("event", node, "e1"), fix_id("event", node, "e2")
    with bench.keeper(quiet) as keeper:
        keeper.take_event(xid(node, 79))
        assert bench.comes_to(waits, FixState.WAITING).held_back == "it is a quiet time"
    with bench.keeper() as keeper:
        until(lambda: figure(keeper, "trilens_fixes_waiting") == 1, "it was not read")
        assert figure(keeper, "trilens_fix_delay_seconds") is None
        keeper.take_event(xid(node, 31, "e0"))  # a program's
        keeper.take_event(xid(node, 79, "e2"))
        bench.comes_to(comes, FixState.DONE)
        assert bench.comes_to(waits, FixState.DROPPED).result == f"done by {comes}"
        assert figure(keeper, "trilens_fixes_waiting") == 0
        assert figure(keeper, "trilens_fixes_total", deed="cordon", outcome="done") == 1
        assert figure(keeper, "trilens_fixes_total", deed="cordon", outcome="dropped") == 1
        assert figure(keeper, "trilens_fixes_total", deed="evict", outcome="done") == 0
        assert figure(keeper, "trilens_fix_delay_seconds") is not None
    assert bench.fix(fix_id("event", node, "e0")) is None


def test_what_only_a_detector_saw_is_answered_too(bench: Bench) -> None:
    node = bench.node()
    finding = Finding(
        "D009",
        FindingKind.GPU_FAULT,
        Subject(node=node),
        Severity.CRITICAL,
        "xid-79",
        now_ms(),
        "Xid 79",
        "cordon",
    )
    opened = FindingInterval(finding, now_ms(), now_ms())
    with bench.keeper() as keeper:
        keeper.take_findings([FindingInterval(replace(finding, cause="xid-31"), 0, 0), opened])
        done = bench.comes_to(fix_id("finding", opened.key.id, finding.onset_ms), FixState.DONE)
    assert done.source == f"finding {opened.key.id}"
    assert bench.is_closed(node)


def test_without_permission_the_rule_is_named(bench: Bench, kubernetes: KubernetesServer) -> None:
    node = bench.node()
    reader = kubernetes.user("cure-reader", Rule("", ("nodes",), ("list",)))
    with bench.keeper(identity=reader) as keeper:
        fix = asyncio.run(keeper.do(Told(Deed.CORDON, node_target(node), "ann")))
    assert fix.state is FixState.FAILED
    assert 'allow "patch" on nodes' in fix.result
    assert "trilens kubernetes rbac --fix" in fix.result
    assert not bench.is_closed(node)


def test_the_printed_role_is_enough(
    bench: Bench, kubernetes: KubernetesServer, admin: KubernetesClient
) -> None:
    role = fix_manifests([kind for kind in choose() if restartable(str(kind.group_kind))])[0]
    granted = [
        Rule(group, tuple(rule["resources"]), tuple(rule["verbs"]))
        for rule in role["rules"]
        for group in rule["apiGroups"]
    ]
    fixer = kubernetes.user("cure-fixer", Rule("", ("nodes", "pods"), ("list",)), *granted)
    node, spec = bench.node(), {"containers": [{"name": "main", "image": "x"}]}
    for name in ("one", "two"):
        admin.create(PODS, {"metadata": {"name": name}, "spec": spec}, HOME)
    wanted = [
        Told(Deed.CORDON, node_target(node), "ann"),
        Told(Deed.UNCORDON, node_target(node), "ann"),
        Told(Deed.ANNOTATE, FixTarget("lab", "", "Pod", HOME, "one"), "ann", value={"a": "b"}),
        Told(Deed.EVICT, FixTarget("lab", "", "Pod", HOME, "one"), "ann"),
        Told(Deed.DELETE_POD, FixTarget("lab", "", "Pod", HOME, "two"), "ann"),
    ]
    with bench.keeper(identity=fixer) as keeper:
        done = [asyncio.run(keeper.do(one)) for one in wanted]
    assert [(one.state, one.result) for one in done] == [(FixState.DONE, "")] * len(wanted)
    assert admin.list(PODS, HOME)["items"] == []  # without a node they are gone at once


def test_without_a_policy_nothing_is_done_until_there_is_one(bench: Bench) -> None:
    node = bench.node()
    bench.store.events.event(xid(node, 79))
    with bench.keeper(None) as keeper:
        keeper.take_event(xid(node, 79))
        tried = asyncio.run(keeper.dry_run(Told(Deed.CORDON, node_target(node), "ann")))
        assert (tried.state, "cure.policy" in tried.result) == (FixState.DRY_RUN, True)
        with pytest.raises(RequestError, match=r"cure\.policy"):
            asyncio.run(keeper.do(Told(Deed.CORDON, node_target(node), "ann")))
        assert not bench.is_closed(node)
        assert bench.fix(fix_id("event", node, "e1")) is None
        keeper.use_policy(POLICY)
        bench.comes_to(fix_id("event", node, "e1"), FixState.DONE)
        keeper.use_policy(None)
        with pytest.raises(RequestError, match=r"cure\.policy"):
            asyncio.run(keeper.do(Told(Deed.UNCORDON, node_target(node), "ann")))


def test_a_job_is_restarted_through_its_operator(bench: Bench, admin: KubernetesClient) -> None:
    admin.create(
        RAY_JOBS,
        {"metadata": {"name": "llm"}, "spec": {"suspend": False, "shutdownAfterJobFinishes": True}},
        HOME,
    )
    job = FixTarget("lab", "ray.io", "RayJob", HOME, "llm")

    def operator() -> None:
        def is_suspended() -> bool:
            return bool(admin.get(RAY_JOBS, "llm", HOME)["spec"]["suspend"])

        until(is_suspended, "it is not suspended")
        admin.patch_status(RAY_JOBS, "llm", {"jobDeploymentStatus": "Suspended"}, HOME)

    async def both() -> Fix:
        with bench.keeper() as keeper:
            restarted, _ = await asyncio.gather(
                keeper.do(Told(Deed.RESTART, job, "ann")), asyncio.to_thread(operator)
            )
        return restarted

    fix = asyncio.run(both())
    assert (fix.state, fix.result) == (FixState.DONE, "suspended and resumed")
    assert admin.get(RAY_JOBS, "llm", HOME)["spec"]["suspend"] is False

    killed = replace(fix, id="killed", state=FixState.BEGUN, ended_ms=None)
    mark = {"spec": {"suspend": True}, "metadata": {"annotations": {"trilens/fix": "killed"}}}
    admin.patch(RAY_JOBS, "llm", mark, HOME)
    bench.store.fixes.put(killed)
    assert bench.fix("killed")
    with bench.keeper():
        assert "resumed after a restart" in bench.comes_to("killed", FixState.DONE).result
    assert admin.get(RAY_JOBS, "llm", HOME)["spec"]["suspend"] is False


def test_what_has_the_name_of_one_that_is_gone_is_left_alone(bench: Bench, admin: KubernetesClient) -> None:
    """It may be another team's."""
    job = {"metadata": {"name": "again"}, "spec": {"suspend": False, "shutdownAfterJobFinishes": True}}
    gone = admin.create(RAY_JOBS, job, HOME)["metadata"]["uid"]
    target = FixTarget("lab", "ray.io", "RayJob", HOME, "again", gone)
    noted = {"note": "ours"}
    with bench.keeper() as keeper:
        kept = asyncio.run(keeper.do(Told(Deed.ANNOTATE, target, "ann", value=noted)))
        assert (kept.state, bench.fix(kept.id)) == (FixState.DONE, kept)
        admin.delete(RAY_JOBS, "again", HOME)
        annotations = {"trilens/fix": kept.id, **noted}  # as the other left it, to the letter
        other = admin.create(
            RAY_JOBS, {**job, "metadata": {"name": "again", "annotations": annotations}}, HOME
        )
        assert other["metadata"]["uid"] != gone
        for deed in (Deed.RESTART, Deed.ANNOTATE):
            for way in (keeper.do, keeper.dry_run):
                with pytest.raises(NotFound, match="is gone, and what has its name now is another"):
                    asyncio.run(way(Told(deed, target, "ann", value={"note": "theirs"})))
        with pytest.raises(NotFound, match="is gone"):
            asyncio.run(keeper.undo(kept.id, "ann"))
    assert (
        admin.get(RAY_JOBS, "again", HOME)["metadata"]["resourceVersion"]
        == (other["metadata"]["resourceVersion"])
    )


async def test_what_takes_a_name_between_two_calls_is_not_changed(
    kubernetes: KubernetesServer, admin: KubernetesClient, tmp_path: Path
) -> None:
    made = admin.create(RAY_JOBS, {"metadata": {"name": "raced"}, "spec": {"suspend": False}}, HOME)
    target = FixTarget("lab", "ray.io", "RayJob", HOME, "raced", made["metadata"]["uid"])
    writes = ObjectWrites(
        access_to(ClusterSettings(kubeconfig=kubernetes.kubeconfig()), tmp_path), CASE_KINDS
    )
    try:
        answer = await writes.patch(target, {"metadata": {"labels": {"a": "b"}}}, dry_run=False)
        assert answer["metadata"]["labels"] == {"a": "b"}
        with pytest.raises(KubeApiError):
            await writes.patch(target._replace(uid="another"), {"spec": {"suspend": True}}, dry_run=False)
    finally:
        await writes.close()
    assert admin.get(RAY_JOBS, "raced", HOME)["spec"]["suspend"] is False


def test_a_job_of_volcano_is_given_a_command(bench: Bench, admin: KubernetesClient) -> None:
    made = admin.create(VOLCANO_JOBS, {"metadata": {"name": "llm"}, "spec": {"maxRetry": 5}}, HOME)
    job = FixTarget("lab", "batch.volcano.sh", "Job", HOME, "llm")
    with bench.keeper() as keeper:
        tried = asyncio.run(keeper.dry_run(Told(Deed.RESTART, job, "ann")))
        assert admin.list(VOLCANO_COMMANDS, HOME)["items"] == []
        done = asyncio.run(keeper.do(Told(Deed.RESTART, job, "ann")))
    assert (tried.result, done.state, done.result) == ("", FixState.DONE, "")
    (command,) = admin.list(VOLCANO_COMMANDS, HOME)["items"]
    assert (command["action"], command["target"]["uid"]) == ("RestartJob", made["metadata"]["uid"])
    assert command["metadata"]["annotations"] == {"trilens/fix": done.id}
    assert admin.get(VOLCANO_JOBS, "llm", HOME)["metadata"]["annotations"]["trilens/fix"] == done.id
