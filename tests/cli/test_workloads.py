"""`trilens workloads` and `trilens show` against a server with records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from command_here import trilens_here
from memory_api import Api, running
from workload_records import minute, some_records

if TYPE_CHECKING:
    from collections.abc import Iterator

AT = str(minute(25) / 1000)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("records")
    with some_records(folder) as records, running(Api(workloads=records).build()) as url:
        yield url


def test_a_table_of_workloads(server: str) -> None:
    answer = trilens_here("workloads", "-n", "ml", "--at", AT, "--server", server)
    assert answer.returncode == 0
    assert answer.stdout.splitlines() == [
        "namespace  workload  kind        team    phase    for  ready  attempt  doubts",
        "ml         batch     Job         -       queued   25m  ?/0    0",
        "ml         batch     Job         -       queued   25m  ?/0    0",
        "ml         train     PyTorchJob  vision  running  5m   ?/2    1        1?",
    ]


def test_json_is_a_list_of_objects(server: str) -> None:
    answer = trilens_here("workloads", "--at", AT, "--phase", "running", "--json", "--server", server)
    (train,) = json.loads(answer.stdout)
    assert train["name"] == "train"


def test_none_is_said_and_is_no_error(server: str) -> None:
    answer = trilens_here("workloads", "-n", "none", "--server", server)
    assert (answer.returncode, answer.stdout) == (0, "")
    assert "no workloads" in answer.stderr


def test_a_workload_on_one_screen(server: str) -> None:
    answer = trilens_here("show", "ml/train", "--at", AT, "--server", server)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == [
        "PyTorchJob.kubeflow.org ml/train in lab",
        "  running for 5m",
        "  members ready ?/2, attempt 1",
        "  team vision, cost centre unknown, experiment lr-sweep, queue gpu",
        "",
        "doubts",
        "  owner-unreadable: PyTorchJobs may not be read; grant list on pytorchjobs",
        "",
        "members",
        "attempt  node rank  role    pod      node    state  since                 until",
        "1        0          worker  train-0  -       -      2026-01-14T12:20:00Z",
        "1        1          worker  train-1  node-a  -      2026-01-14T12:20:00Z",
        "and 2 of earlier attempts; --all shows each",
        "",
        "phases",
        "attempt  phase      since                 for  reason",
        "0        running    2026-01-14T12:00:00Z  10m",
        "0        preempted  2026-01-14T12:10:00Z  10m  by team nlp",
        "1        running    2026-01-14T12:20:00Z  5m",
        "in all: running 15m, preempted 10m",
        "",
        "steps",
        "step  state    since                 for  pod",
        "fit   Running  2026-01-14T12:00:00Z  25m  train-0",
    ]


def test_earlier_attempts_are_shown_if_asked_for(server: str) -> None:
    answer = trilens_here("show", "ml/train", "--all", "--at", AT, "--server", server)
    left = "left   2026-01-14T12:00:00Z  2026-01-14T12:10:00Z"
    assert answer.stdout.splitlines()[9:12] == [
        "attempt  node rank  role    pod      node    state  since                 until",
        f"0        0          worker  train-0  -       {left}",
        f"0        1          worker  train-1  node-a  {left}",
    ]
    assert "--all" not in answer.stdout


def test_one_that_is_gone_is_found_by_its_name(server: str) -> None:
    """The latest of that name, also where another namespace had one."""
    answer = trilens_here("show", "tune", "--server", server)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines()[:2] == [
        "Job.batch ml/tune in lab",
        "  gone since 2026-01-14T11:30:00Z, last failed (exit code 1)",
    ]
    at = str(minute(-35) / 1000)
    (then,) = json.loads(trilens_here("show", "job/tune", "--at", at, "--json", "--server", server).stdout)
    assert (then["workload"]["namespace"], then["workload"]["gone"]) == ("ml", None)
    (other,) = json.loads(trilens_here("show", "web/tune", "--at", at, "--json", "--server", server).stdout)
    assert other["workload"]["gone"] == {"at_ms": minute(-40), "phase": "failed", "reason": "exit code 1"}


def test_those_that_went_lately(server: str) -> None:
    asked = ("workloads", "-n", "ml", "--at", str(minute(-20) / 1000), "--server", server)
    assert trilens_here(*asked).stdout == ""
    assert trilens_here(*asked, "--since", "-5m").stdout == ""
    assert trilens_here(*asked, "--since", "-15m", "--phase", "running").stdout == ""
    assert trilens_here(*asked, "--since", "-15m", "--phase", "failed").stdout.splitlines() == [
        "namespace  workload  kind  team  phase              for  ready  attempt  doubts",
        "ml         tune      Job   -     gone, last failed  10m  ?/0    0",
    ]


@pytest.mark.parametrize("written", ["pytorchjob/train", "PyTorchJob.kubeflow.org/train", "ml/train"])
def test_ways_to_name_it(server: str, written: str) -> None:
    answer = trilens_here("show", written, "--at", AT, "--json", "--server", server)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)[0]["workload"]["uid"] == "u1"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("train", "lab/ml/PyTorchJob.kubeflow.org/train, lab/web/Deployment.apps/train"),
        ("nothing", "no workload 'nothing' at that time, nor before"),
        ("a/b/c", "'a/b/c' names no workload"),
        ("lab/ml/Job/nothing", "no workload lab/ml/Job/nothing is known at that time"),
    ],
)
def test_what_names_no_workload(server: str, written: str, said: str) -> None:
    answer = trilens_here("show", written, "--server", server)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert said in answer.stderr


def test_no_server() -> None:
    answer = trilens_here("workloads", "--server", "http://127.0.0.1:1")
    assert (answer.returncode, answer.stdout) == (1, "")
    assert "no answer" in answer.stderr
