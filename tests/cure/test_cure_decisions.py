"""What a policy says to a cordon, by itself: pure, without a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trilens.diagnose.cure.changes import change_of, is_done
from trilens.diagnose.cure.decisions import FRESH_MS, Say, decide, refusal
from trilens.model.errors import RequestError
from trilens.model.fix import SERVER, Deed, Fix, FixState, FixTarget
from trilens.settings.cure import CurePolicy

NOW_MS = 1_794_744_000_000  # 2026-11-15T12:00Z, a Sunday
NODE = FixTarget("lab", "", "Node", "", "gpu-7")
FIX = Fix("f1", NOW_MS, Deed.CORDON, NODE, SERVER, "why", "event gpu-7/e1", FixState.BEGUN, fault="xid-79")
OPEN: dict[str, Any] = {"metadata": {"creationTimestamp": "2026-11-01T00:00:00Z"}, "spec": {}}
CLOSED = {**OPEN, "spec": {"unschedulable": True}}
YOUNG = {"metadata": {"creationTimestamp": "2026-11-15T11:59:59Z"}}
POLICY: dict[str, Any] = {"allow": [{"do": ["cordon"]}], "max_nodes": 2, "approved": ["xid-79"]}


def policy(**more: Any) -> CurePolicy:
    return CurePolicy.model_validate({**POLICY, **more})


@pytest.mark.parametrize(
    ("told", "node", "closed", "age_ms", "say", "why"),
    [
        ({}, OPEN, (), 0, Say.DO, ""),
        ({}, OPEN, ("a",), FRESH_MS, Say.DO, ""),
        ({}, OPEN, ("a", "b"), 0, Say.WAIT, "at most 2 nodes"),
        ({"max_nodes": 0}, OPEN, (), 0, Say.WAIT, "at most 0 nodes"),
        ({"approved": ["xid-48"]}, OPEN, (), 0, Say.WAIT, "xid-79 is not approved"),
        ({"approved": []}, OPEN, (), 0, Say.WAIT, "xid-79 is not approved"),
        ({"quiet": ["sat-sun"]}, OPEN, (), 0, Say.WAIT, "a quiet time"),
        ({}, YOUNG, (), 5_000, Say.WAIT, "made anew"),
        ({}, YOUNG, (), 0, Say.DO, ""),
        ({}, CLOSED, (), 0, Say.LEAVE, "cordoned already"),
        ({}, OPEN, (), FRESH_MS + 1, Say.LEAVE, "too old"),
        ({"allow": [{"do": ["cordon"], "nodes": ["cpu-*"]}]}, OPEN, (), 0, Say.LEAVE, "does not let"),
        ({"allow": [{"do": ["cordon"], "labels": {"pool": "a"}}]}, OPEN, (), 0, Say.LEAVE, "does not let"),
    ],
)
def test_the_server_itself(
    told: dict[str, Any], node: dict[str, Any], closed: tuple[str, ...], age_ms: int, say: Say, why: str
) -> None:
    found = decide(policy(**told), FIX, node, closed, fault_ms=NOW_MS - age_ms, now_ms=NOW_MS)
    assert found.say is say
    assert why in found.why


def test_without_a_policy_nobody_may() -> None:
    assert decide(None, FIX, OPEN, (), fault_ms=NOW_MS, now_ms=NOW_MS).say is Say.LEAVE
    assert "cure.policy" in refusal(None, FIX, OPEN, ())
    assert "at most 2" in refusal(policy(), FIX, OPEN, ("a", "b"))
    uncordon = replace(FIX, deed=Deed.UNCORDON)
    assert "does not allow uncordon" in refusal(policy(), uncordon, OPEN, ())
    freed = policy(allow=[{"do": ["uncordon"]}], approved=[])
    assert refusal(freed, uncordon, OPEN, ("a", "b", "c")) == ""  # it makes room


def test_a_person_may_in_quiet_times_and_what_is_not_approved() -> None:
    strict = policy(quiet=["00:00-24:00"], approved=[])
    assert refusal(strict, replace(FIX, by="ann"), OPEN, ()) == ""


def test_only_what_trilens_closed_is_opened_again() -> None:
    uncordon = replace(FIX, id="f2", deed=Deed.UNCORDON)
    with pytest.raises(RequestError, match="was not cordoned by Trilens") as told_so:
        change_of(uncordon, CLOSED)
    assert "kubectl uncordon gpu-7" in str(told_so.value)
    ours = {
        "metadata": {"labels": {"trilens/cordoned": "true"}, "annotations": {"trilens/fix": "f1"}},
        "spec": {"unschedulable": True},
    }
    assert change_of(uncordon, ours).before == {"unschedulable": True}
    assert is_done(FIX, ours)
    assert not is_done(replace(FIX, id="f0"), ours)  # of another cordon


def test_a_change_holds_for_what_was_read() -> None:
    """Whoever changed it since makes the API server refuse the patch."""
    read = {"metadata": {"resourceVersion": "42"}, "spec": {}}
    for deed, value in ((Deed.CORDON, {}), (Deed.UNCORDON, {}), (Deed.ANNOTATE, {"a": "b"})):
        patch = change_of(replace(FIX, deed=deed, value=value), read).patch
        assert patch is not None
        assert patch["metadata"]["resourceVersion"] == "42"


def test_the_marks_of_trilens_are_its_own() -> None:
    with pytest.raises(RequestError, match="trilens/fix"):
        change_of(replace(FIX, deed=Deed.ANNOTATE, value={"trilens/fix": "x"}), OPEN)
