"""Of several things that keep a pod from its node, which one is named, and on what that rests."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from scenario_files import NOW_MS, read_object, scenarios

from servers import require_corpus
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseSubject, SubjectKind
from trilens.diagnose.walk import why
from trilens.model.verdict import TELL_FROM

if TYPE_CHECKING:
    from trilens.model.verdict import Verdict

_FULL = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
_TAINTED = "0/1 nodes are available: 1 node(s) had untolerated taint {dedicated: vision}."


def _pod(**more: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train-0", "namespace": "ml", "uid": "u0"},
        "spec": {"containers": [container]},
        "status": {"phase": "Pending", **more},
    }


def _event(message: str, minute: int, reporter: str = "default-scheduler") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"e{minute}", "namespace": "ml"},
        "involvedObject": {"kind": "Pod", "name": "train-0", "uid": "u0"},
        "reason": "FailedScheduling",
        "message": message,
        "lastTimestamp": f"2026-11-03T09:{minute:02}:00Z",
        "reportingComponent": reporter,
    }


def _why(*objects: dict[str, Any]) -> list[Verdict]:
    subject = CaseSubject(SubjectKind.POD, "prod", "ml", "train-0")
    return why(Case(CaseFile(subject, 0, NOW_MS, objects=tuple(map(read_object, objects)))))


def _facts(verdict: Verdict) -> str:
    return "\n".join(fact.text for asked in verdict.way for fact in asked.facts)


# By what the corpus calls the cause: with nothing known but the message.
_VERDICTS = {
    "insufficient_gpu": "gpus-all-taken",
    "insufficient_gpu+taint": "gpus-all-taken",
    "taint": "untolerated-taint",
    "vgpu_unfit+node_unreachable": "vgpu-unfit",
    "gang_not_ready": "gang-no-room",
    "quota": "kueue-quota",
    "quota_pending_preemption": "kueue-preempting",
    "autoscaler_no_fit": "autoscaler-no-fit",
}


def test_each_message_of_the_corpus_leads_to_its_verdict() -> None:
    for line in require_corpus("scheduling", "messages.jsonl").read_text().splitlines():
        told = json.loads(line)
        event = _event(told["message"], 50, told["reporter"])
        [verdict] = _why(_pod(), {**event, "reason": told.get("reason", event["reason"])})
        assert verdict.cause == _VERDICTS[told["cause"].partition(" ")[0]], told["source"]
        assert verdict.confidence >= TELL_FROM


def test_what_a_scheduler_said_last_counts() -> None:
    assert _why(_pod(), _event(_TAINTED, 50), _event(_FULL, 55))[0].cause == "gpus-all-taken"
    assert _why(_pod(), _event(_FULL, 50), _event(_TAINTED, 55))[0].cause == "untolerated-taint"


def test_the_condition_of_a_pod_tells_when_its_events_are_forgotten() -> None:
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": _TAINTED}
    [verdict] = _why(_pod(conditions=[refused]))
    assert verdict.cause == "untolerated-taint"
    assert "status of Pod train-0: PodScheduled" in {fact.source for fact in verdict.way[-2].facts}


def test_a_gang_waits_for_what_its_members_lack() -> None:
    gang = "4/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable"
    [verdict] = _why(_pod(), _event(_FULL, 50), _event(gang, 55, "volcano"))
    assert verdict.cause == "gpus-all-taken"
    assert "its group waits for what its members lack" in _facts(verdict)


def test_a_job_that_names_a_queue_is_not_said_to_be_suspended_where_kueue_cannot_be_read() -> None:
    [scenario] = [one for one in scenarios() if one.name == "kueue-quota"]
    file = scenario.case().file
    unread = replace(file, objects=tuple(one for one in file.objects if one.group != "kueue.x-k8s.io"))
    verdict = why(Case(unread))[0]
    assert verdict.confidence < TELL_FROM
    assert "its Workload of Kueue" in {one.what for one in verdict.missing}


def test_the_taint_of_the_control_plane_is_told_and_never_the_cause() -> None:
    [scenario] = [one for one in scenarios() if one.name == "gpus-all-taken"]
    verdicts = why(scenario.case())
    assert [verdict.cause for verdict in verdicts] == ["gpus-all-taken"]
    assert "those nodes are Kubernetes' own" in _facts(verdicts[0])


@pytest.mark.parametrize("name", ["untolerated-taint", "gpus-all-taken"])
def test_without_the_nodes_it_is_less_sure_and_says_what_is_missing(name: str) -> None:
    [scenario] = [one for one in scenarios() if one.name == name]
    file = scenario.case().file
    whole = why(scenario.case())[0]
    blinkered = why(Case(replace(file, objects=tuple(one for one in file.objects if one.kind != "Node"))))[0]
    assert blinkered.confidence < whole.confidence
    assert "the nodes of the cluster" in {one.what for one in blinkered.missing}


def test_objects_of_any_shape_are_read_without_a_defect() -> None:
    chance = random.Random(7)  # the same every time
    for scenario in scenarios():
        file = scenario.case().file
        objects = tuple(replace(one, body=_mangled(one.body, chance)) for one in file.objects)
        for verdict in why(Case(replace(file, objects=objects))):
            assert not [one.what for one in verdict.missing if " failed: " in one.what], scenario.name


def _mangled(tree: Any, chance: random.Random) -> Any:
    junk = (None, "", 0, -1, [], {}, "x", [None], [{}], True)
    if isinstance(tree, dict):
        return {
            name: deepcopy(chance.choice(junk)) if chance.random() < 0.1 else _mangled(part, chance)
            for name, part in tree.items()
        }
    if isinstance(tree, list):
        return [_mangled(part, chance) for part in tree]
    return tree
