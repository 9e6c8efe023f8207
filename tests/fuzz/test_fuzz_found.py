"""What fuzzing has found, kept: each was an error that nobody had foreseen."""

from __future__ import annotations

import json
from typing import Any

import pytest
import re2
from bench.torture.fuzz.target import survives
from bench.torture.fuzz.targets import BY_NAME

from kube_objects import MadeObjects, resolved
from trilens.model.errors import PromQLSyntaxError
from trilens.promql.parse import parse
from trilens.promql.patterns import compile_pattern
from trilens.resolve.gpus.annotations import GpuGroups, assigned
from trilens.resolve.kube_state.quantity import quantity
from trilens.resolve.reading import whole

HUGE = "9" * 5_000  # more digits than Python makes a number of

NOON = "2026-01-14T12:00:00Z"
META = {"name": "x", "uid": "u", "resourceVersion": "1", "creationTimestamp": NOON}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {**META, "annotations": {"volcano.sh/gpu-index": HUGE}}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": META, "status": {"capacity": {"cpu": "1e9999999"}}}
ODD = [1.5, [1.5], [{"env": 1.5}], [{"env": [1.5, {"name": []}, {"name": "RANK", "value": "0"}]}]]
ODD_PODS = [
    {"apiVersion": "v1", "kind": "Pod", "metadata": META, "spec": {"containers": one, "initContainers": one}}
    for one in ODD
]
WORKFLOW = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "metadata": META}
NESTED = json.dumps({**POD, "spec": {"containers": "?"}}).replace('"?"', "[" * 1_500 + "]" * 1_500)
FOUND: list[tuple[str, bytes]] = [
    ("kubernetes", json.dumps(POD).encode()),
    ("kubernetes", json.dumps(NODE).encode()),
    ("kubernetes", b"\n".join(json.dumps(pod).encode() for pod in ODD_PODS)),
    ("kubernetes", json.dumps({**WORKFLOW, "status": {"compressedNodes": "\u00e9"}}).encode()),
    ("nccl-logs", b"n1:7:9 [0] alloc.h:58 NCCL WARN\tFailed to malloc 268435456 bytes"),  # nothing was wrong
]


@pytest.mark.parametrize(("name", "data"), FOUND, ids=["annotation", "amount", "containers", "packed", "tab"])
def test_an_input_that_once_was_too_much(name: str, data: bytes) -> None:
    assert survives(BY_NAME[name], data)


def test_an_object_that_nests_too_deep_is_refused() -> None:
    assert not survives(BY_NAME["kubernetes"], NESTED.encode())


@pytest.mark.parametrize("pattern", ["\udcff", "\ud800["])
def test_a_pattern_that_is_no_text_is_no_regular_expression(pattern: str) -> None:
    with pytest.raises(re2.error, match="invalid UTF-8"):
        compile_pattern(pattern)


def test_a_query_with_such_a_pattern_is_refused_as_a_query() -> None:
    with pytest.raises(PromQLSyntaxError, match="error parsing regexp"):
        parse(r'm{a!~"\xff"}')


@pytest.mark.parametrize("written", ["1e9999999", "-1e9999999", "1e-9999999", "9e25"])
def test_an_amount_that_no_cluster_has_is_no_quantity(written: str) -> None:
    assert quantity(written) is None


def test_a_number_with_thousands_of_digits_is_none() -> None:
    assert whole(HUGE) is None
    assert whole("9" * 18) == 10**18 - 1


def test_a_pod_with_such_an_annotation_stops_nobody() -> None:
    made = MadeObjects()
    annotations = {"volcano.sh/gpu-index": HUGE, "batch.kubernetes.io/job-completion-index": HUGE}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "annotations": annotations,
            "labels": {"apps.kubernetes.io/pod-index": HUGE},
        },
        "spec": {"containers": [{"name": "c"}]},
    }
    made.create(pod)
    (told,) = made.objects()
    assert set(resolved([told])) <= {"p"}
    list(assigned(told, GpuGroups([told])))
