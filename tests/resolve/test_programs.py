"""Which endpoints pods say they have."""

from __future__ import annotations

from typing import Any

import pytest

from kube_objects import to_object
from trilens.model.program import Program
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
from trilens.resolve.programs import programs_of

KEY = WorkloadKey("lab", "ml", "", "Pod", "p", "u")
POD = PodKey("lab", "ml", "p", "u")


def found(
    ports: list[dict[str, Any]], phase: str = "Running", ip: str = "10.0.0.1", **annotations: str
) -> list[Program]:
    pod = to_object(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "ml", "uid": "u", "annotations": annotations},
            "spec": {"nodeName": "n", "containers": [{"name": "main", "ports": ports}]},
            "status": {"phase": phase, "podIP": ip},
        }
    )
    member = Membership(POD, KEY, attempt=2, role="worker", node_rank=3)
    return list(programs_of(Workload(KEY, team="vision", experiment="lr"), [(pod, member)]))


METRICS = [{"containerPort": 80, "name": "http"}, {"containerPort": 8000, "name": "metrics"}]


def annotated(**values: str) -> dict[str, str]:
    return {f"prometheus.io/{name}": value for name, value in values.items()}


def test_a_port_by_its_name_with_all_that_is_known_of_the_pod() -> None:
    assert found(METRICS) == [
        Program(
            "10.0.0.1:8000",
            POD,
            KEY,
            2,
            node="n",
            role="worker",
            container="main",
            node_rank=3,
            team="vision",
            experiment="lr",
        )
    ]


@pytest.mark.parametrize(
    ("ports", "options", "addresses"),
    [
        (METRICS, {}, ["10.0.0.1:8000"]),
        ([{"containerPort": 9, "name": "trilens"}], {}, ["10.0.0.1:9"]),
        ([{"containerPort": 9, "name": "http"}], {}, []),
        ([{"containerPort": 9}], {}, []),
        ([], annotated(scrape="true", port="7"), ["10.0.0.1:7"]),
        (METRICS, annotated(scrape="true", port="7"), ["10.0.0.1:7"]),  # the annotation has the last word
        (METRICS, annotated(scrape="true"), ["10.0.0.1:8000"]),
        (METRICS, annotated(scrape="false"), []),
        ([], annotated(port="7"), []),
        ([], annotated(scrape="true", port="none"), []),
        ([], annotated(scrape="true", port="70000"), []),
        (METRICS, {"phase": "Succeeded"}, []),
        (METRICS, {"ip": ""}, []),  # it has not started
        (METRICS, {"ip": "fd00::1"}, ["[fd00::1]:8000"]),
    ],
)
def test_which_address(ports: list[dict[str, Any]], options: dict[str, str], addresses: list[str]) -> None:
    assert [program.address for program in found(ports, **options)] == addresses


def test_path_and_scheme_are_those_of_the_annotations() -> None:
    (program,) = found(METRICS, **annotated(path="/m", scheme="https"))
    assert (program.path, program.scheme) == ("/m", "https")
