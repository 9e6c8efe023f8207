"""What a pod asks of nodes, matched as Kubernetes does; and which driver a CUDA version asks for."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
import yaml
from scenario_files import read_object

from trilens.diagnose.cuda import driver_needed, version
from trilens.diagnose.scheduling.demand import Demand, Taint, requested
from trilens.diagnose.selectors import Requirement, lacking, requirements, wanted_nodes

_TAINT = Taint("dedicated", "vision", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        pytest.param({"operator": "Exists"}, True, id="of-all"),
        pytest.param({"key": "dedicated", "operator": "Exists"}, True, id="of-the-key"),
        pytest.param({"key": "other", "operator": "Exists"}, False, id="of-another-key"),
        pytest.param({"key": "dedicated", "value": "vision"}, True, id="equal-is-the-default"),
        pytest.param({"key": "dedicated", "operator": "Equal", "value": "audio"}, False, id="another-value"),
        pytest.param({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False, id="effect"),
    ],
)
def test_tolerations(toleration: dict[str, Any], expected: bool) -> None:
    assert Demand({}, (toleration,), ()).tolerates(_TAINT) is expected


@pytest.mark.parametrize(
    "taint",
    [_TAINT, Taint("nvidia.com/gpu", "", "NoExecute"), Taint.read("gpu: "), Taint.read("a: b")],
    ids=str,
)
def test_the_toleration_that_is_printed_tolerates(taint: Taint) -> None:
    written = yaml.safe_load(taint.toleration)
    assert Demand({}, (written,), ()).tolerates(taint)


@pytest.mark.parametrize(
    ("operator", "values", "label", "expected"),
    [
        ("In", ("a", "b"), "b", True),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), None, True),
        ("NotIn", ("a",), "a", False),
        ("Exists", (), "", True),
        ("DoesNotExist", (), None, True),
        ("Gt", ("4",), "8", True),
        ("Lt", ("4",), "8", False),
        ("Gt", ("4",), "many", False),
        ("Nonsense", (), "a", False),
    ],
)
def test_requirements_on_labels(
    operator: str, values: tuple[str, ...], label: str | None, expected: bool
) -> None:
    labels = {"key": label} if label is not None else {}
    assert Requirement("key", operator, values).holds(labels) is expected


def test_of_several_terms_of_affinity_one_is_enough_and_the_selector_goes_with_each() -> None:
    terms = [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]} for zone in ("a", "b")
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    wanted = wanted_nodes({"nodeSelector": {"gpu": "yes"}, "affinity": {"nodeAffinity": required}})
    assert [not lacking(one, {"gpu": "yes", "zone": "b"}) for one in wanted] == [False, True]
    assert [not lacking(one, {"zone": "b"}) for one in wanted] == [False, False]
    assert wanted_nodes({}) == ()
    assert requirements({}) == ()


def test_a_pod_asks_for_its_containers_together_or_its_largest_init_container() -> None:
    def container(gpus: str, **more: Any) -> dict[str, Any]:
        return {"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}, **more}

    spec = {
        "containers": [container("1"), container("2")],
        "initContainers": [container("4"), container("1", restartPolicy="Always")],
    }
    pod = read_object(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "n"}, "spec": spec}
    )
    assert requested(pod) == {"nvidia.com/gpu": Decimal(4), "pods": Decimal(1)}


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [
        ("13.1", "580.65.06"),
        ("12.6", "525.60.13"),
        ("11.8", "450.80.02"),
        ("10.2", "440.33"),
        ("14.0", None),  # newer than the table
        ("7.5", None),
        ("", None),
    ],
)
def test_the_driver_that_a_cuda_version_needs(cuda: str, driver: str | None) -> None:
    assert driver_needed(cuda) == driver


def test_versions_are_compared_by_their_numbers() -> None:
    assert version("550.9.1") < version("550.10") < version("580")
    assert version("none") == ()
