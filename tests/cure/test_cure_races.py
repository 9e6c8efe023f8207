"""Somebody else at the same time: people with kubectl, another server of Trilens, a node that goes. On a real
API server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cure_bench import POLICY, Bench, node_target, now_ms, xid
from passed_on import PassedOn

from kubernetes_client import NODES
from servers import until
from trilens.model.errors import NotFound, RequestError
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.fix import Deed, Fix, FixState, fix_id
from trilens.serve.cure.told import Told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kubernetes_client import KubernetesClient
    from trilens.store.fixes import FixRecords

CLOSE = {"spec": {"unschedulable": True}}
OF_TRILENS = {**CLOSE, "metadata": {"labels": {"trilens/cordoned": "true"}}}
ONE_NODE = POLICY.model_copy(update={"max_nodes": 1})


class Interrupted(PassedOn):
    """The store's records; what `meanwhile` does happens after an intent is written, and before its deed."""

    def __init__(self, records: FixRecords, meanwhile: Callable[[], object]) -> None:
        super().__init__(records)
        self._meanwhile = meanwhile
        self._is_due = True

    def put(self, fix: Fix) -> None:
        super().put(fix)
        if fix.state is FixState.BEGUN and self._is_due:
            self._is_due = False
            self._meanwhile()


class InMemory:
    """Those of another server: a process has one store."""

    def __init__(self) -> None:
        self.fixes: dict[str, Fix] = {}

    def put(self, fix: Fix) -> None:
        self.fixes[fix.id] = fix

    def settled(self, timeout_s: float) -> bool:
        return True

    def get(self, id: str) -> Fix | None:
        return self.fixes.get(id)

    def open(self) -> Sequence[Fix]:
        return [one for one in self.fixes.values() if one.state in (FixState.WAITING, FixState.BEGUN)]

    def latest(self, limit: int) -> Sequence[Fix]:
        return list(self.fixes.values())[:limit]


def marks(admin: KubernetesClient, node: str) -> tuple[str | None, str | None]:
    metadata = admin.get(NODES, node)["metadata"]
    fix = (metadata.get("annotations") or {}).get("trilens/fix")
    return metadata["labels"].get("trilens/cordoned"), fix


def test_a_node_that_changes_meanwhile_is_read_again(bench: Bench, admin: KubernetesClient) -> None:
    node = bench.node()
    changed = Interrupted(
        bench.store.fixes, lambda: admin.patch(NODES, node, {"metadata": {"annotations": {"a": "b"}}})
    )
    with bench.keeper(records=changed) as keeper:
        keeper.take_event(xid(node, 79))
        done = bench.comes_to(fix_id("event", node, "e1"), FixState.DONE)
    assert (bench.is_closed(node), marks(admin, node)) == (True, ("true", done.id))


def test_who_cordons_it_meanwhile_keeps_it(bench: Bench, admin: KubernetesClient) -> None:
    """Else Trilens would call it its own, and undo what it never did."""
    node = bench.node()
    with bench.keeper(
        records=Interrupted(bench.store.fixes, lambda: admin.patch(NODES, node, CLOSE))
    ) as keeper:
        keeper.take_event(xid(node, 79))
        dropped = bench.comes_to(fix_id("event", node, "e1"), FixState.DROPPED)
        assert "it is so already" in dropped.result
        assert marks(admin, node) == (None, None)
        with pytest.raises(RequestError, match="not cordoned by Trilens"):
            asyncio.run(keeper.do(Told(Deed.UNCORDON, node_target(node), "ann")))
    assert bench.is_closed(node)


def test_two_servers_cordon_a_node_once(bench: Bench, admin: KubernetesClient) -> None:
    """Both read it open, the other is faster; each with records of its own."""
    node = bench.node()
    id, event = fix_id("event", node, "e1"), xid(node, 79)
    others = InMemory()

    def other_does() -> None:
        second.take_event(event)
        until(lambda: bench.is_closed(node), "the other does nothing")

    with (
        bench.keeper(records=others) as second,
        bench.keeper(records=Interrupted(bench.store.fixes, other_does)) as first,
    ):
        first.take_event(event)
        bench.comes_to(id, FixState.DROPPED)
        until(lambda: others.fixes[id].state is FixState.DONE, "the other did not end it")
    assert marks(admin, node) == ("true", id)


@pytest.mark.parametrize("by", ["", "ann"])
def test_two_servers_do_not_overrun_the_budget(bench: Bench, admin: KubernetesClient, by: str) -> None:
    """Both counted before, and there was room for one: who sees both afterwards takes its own back."""
    node, others = bench.node(), bench.node(1)
    at_once = Interrupted(bench.store.fixes, lambda: admin.patch(NODES, others, OF_TRILENS))
    with bench.keeper(ONE_NODE, records=at_once) as keeper:
        if by:
            failed = asyncio.run(keeper.do(Told(Deed.CORDON, node_target(node), by)))
            assert (failed.state, "taken back at once" in failed.result) == (FixState.FAILED, True)
        else:
            keeper.take_event(xid(node, 79))
            waits = bench.comes_to(fix_id("event", node, "e1"), FixState.WAITING)
            assert others in waits.held_back
    assert (bench.is_closed(node), marks(admin, node)) == (False, (None, None))


def test_nodes_that_others_have_cordoned_leave_the_budget_alone(
    bench: Bench, admin: KubernetesClient
) -> None:
    node, others, opened = bench.node(), bench.node(1), bench.node(2)
    admin.patch(NODES, others, CLOSE)
    admin.patch(NODES, opened, OF_TRILENS)
    admin.patch(NODES, opened, {"spec": {"unschedulable": None}})  # kubectl uncordon leaves the label
    with bench.keeper(ONE_NODE) as keeper:
        keeper.take_event(xid(node, 79))
        done = bench.comes_to(fix_id("event", node, "e1"), FixState.DONE)
    assert (done.held_back, bench.is_closed(node)) == ("", True)


def test_an_undo_takes_back_nothing_that_somebody_has_done_since(
    bench: Bench, admin: KubernetesClient
) -> None:
    node = bench.node()
    with bench.keeper() as keeper:
        first = asyncio.run(keeper.do(Told(Deed.CORDON, node_target(node), "ann")))
        admin.patch(NODES, node, {"spec": {"unschedulable": None}})
        second = asyncio.run(keeper.do(Told(Deed.CORDON, node_target(node), "bob")))
        with pytest.raises(RequestError, match="is not as"):
            asyncio.run(keeper.undo(first.id, "ann"))
        assert bench.is_closed(node)
        undone = asyncio.run(keeper.undo(second.id, "bob"))
        noted = asyncio.run(keeper.do(Told(Deed.ANNOTATE, node_target(node), "ann", value={"who": "ann"})))
        admin.patch(NODES, node, {"metadata": {"annotations": {"who": "bob"}}})
        with pytest.raises(RequestError, match="is not as"):
            asyncio.run(keeper.undo(noted.id, "ann"))
    assert (undone.state, bench.is_closed(node)) == (FixState.DONE, False)
    assert admin.get(NODES, node)["metadata"]["annotations"]["who"] == "bob"


def test_a_node_that_is_gone_or_made_anew(
    bench: Bench, admin: KubernetesClient, caplog: pytest.LogCaptureFixture
) -> None:
    gone, anew, well = (bench.node(n) for n in range(3))
    quiet = POLICY.model_copy(update={"quiet": ("00:00-24:00",)})
    waits = fix_id("event", gone, "e0")
    with bench.keeper(quiet) as keeper:
        keeper.take_event(xid(gone, 79, "e0"))
        bench.comes_to(waits, FixState.WAITING)
    with bench.keeper() as keeper:
        admin.delete(NODES, gone)
        with pytest.raises(NotFound, match="there is no Node") as told_so:
            asyncio.run(keeper.approve(waits, "ann"))
        assert f"trilens fix undo {waits}" in str(told_so.value)
        assert asyncio.run(keeper.undo(waits, "ann")).state is FixState.DROPPED
        keeper.take_event(xid(gone, 79))
        keeper.take_event(xid(anew, 79, t_ms=now_ms() - 300_000))
        keeper.take_event(xid(well, 79))
        bench.comes_to(fix_id("event", well, "e1"), FixState.DONE)  # none before it stands in the way
        assert "made anew" in bench.comes_to(fix_id("event", anew, "e1"), FixState.WAITING).held_back
    assert bench.fix(fix_id("event", gone, "e1")) is None
    assert "a fault waits to be answered" not in caplog.text  # what is gone is not asked for again


def test_what_two_have_told_is_one_fault(bench: Bench, admin: KubernetesClient) -> None:
    """A detector finds what the agent told. Somebody uncordons the node: it stays so."""
    node, after = bench.node(), bench.node(1)
    event = xid(node, 79)
    finding = Finding(
        "D009",
        FindingKind.GPU_FAULT,
        Subject(node=node),
        Severity.CRITICAL,
        "xid-79",
        event.t_ms,
        "Xid 79",
        "cordon",
    )
    with bench.keeper() as keeper:
        keeper.take_event(event)
        done = bench.comes_to(fix_id("event", node, "e1"), FixState.DONE)
        asyncio.run(keeper.undo(done.id, "ann"))
        keeper.take_findings([FindingInterval(finding, event.t_ms, event.t_ms)])
        keeper.take_event(xid(after, 79))
        bench.comes_to(fix_id("event", after, "e1"), FixState.DONE)
        assert not bench.is_closed(node)
        keeper.take_event(replace(event, id="e2", t_ms=now_ms()))  # it happens again
        bench.comes_to(fix_id("event", node, "e2"), FixState.DONE)
