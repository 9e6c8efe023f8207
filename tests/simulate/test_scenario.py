"""Scenario files: what is wrong is said with its place, what is there is documented, any size can be had."""

from __future__ import annotations

from pathlib import Path

import pytest
from worlds import SMALL

from trilens.model.errors import ConfigError
from trilens.simulate.scenario import (
    Arrivals,
    Calm,
    CalmKind,
    Fault,
    FaultKind,
    JobKind,
    JobTemplate,
    Pool,
    Queue,
    Scenario,
    Serving,
    Training,
    load_scenario,
    read_scenario,
    shipped_scenarios,
)

DOCS = Path(__file__).parents[2] / "docs" / "simulator.md"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (SMALL.replace("nodes: 3", "nodes: 0"), "x.yaml: pools[0].nodes: Input should be greater than"),
        (SMALL.replace("nodes: 3", "noodles: 3"), "x.yaml: pools[0].noodles: there is no such key"),
        (
            SMALL.replace("model: H100", "model: H1000"),
            "pools[0]: model 'H1000' is not known; there are B200",
        ),
        (SMALL.replace("pool: h100\n", "pool: h200\n"), "jobs[0].pool: there is no pool 'h200'"),
        (SMALL.replace("kind: PyTorchJob", "kind: PyTorch"), "jobs[0].kind: Input should be 'Job', 'JobSet'"),
        (SMALL.replace("gpus_per_pod: 4", "gpus_per_pod: 9"), "jobs[0].gpus_per_pod: more than a node"),
        (SMALL.replace("pods: 2", "pods: 2\n    duration: soon"), "jobs[0].duration: 'soon' is no duration"),
        (SMALL.replace("pods: 2", "pods: 7"), "jobs[0].pods: pool 'h100' has fewer GPUs than this job"),
        (
            SMALL.replace("pods: 2", "pods: 2\n    queue: q") + "queues: [{name: q, pool: h100, gpus: 4}]",
            "jobs[0].queue: 'q' has a quota of fewer GPUs than this job",
        ),
        (
            SMALL.replace("pods: 2", "pods: 2\n    serving: {load: chatter}"),
            "jobs[0].serving.load: 'chatter' is not known; there are conversation, code",
        ),
        (SMALL + "faults: [{kind: hang}]", "faults[0]: say either at or per_hour"),
        (SMALL + "faults: [{kind: hang, at: 5m, job: x}]", "faults[0].job: there is no job 'x'"),
        (SMALL.replace("nodes: 3", "nodes: 3, mig: 9g.90gb"), "pools[0]: mig '9g.90gb' does not fit on"),
        ("a: [", "x.yaml is no YAML"),
        ("3", "x.yaml holds no scenario"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(broken: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_scenario(broken, "x.yaml")
    assert said in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name a file, or one of bad-night"):
        load_scenario(str(tmp_path / "none.yaml"))


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL)
    assert load_scenario(str(path)).gpus == 24


@pytest.mark.parametrize("name", shipped_scenarios())
@pytest.mark.parametrize("gpus", [1, 8, 12, 64, 100, 1000, 10_000])
def test_any_size_can_be_had(name: str, gpus: int) -> None:
    sized = load_scenario(name).sized(gpus)
    assert sized.gpus == gpus
    # What was scaled is a scenario that could have been written.
    assert Scenario.model_validate(sized.model_dump()) == sized


def test_a_size_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one GPU"):
        load_scenario("default").sized(0)


def test_every_key_and_kind_is_documented() -> None:
    text = DOCS.read_text()
    parts = (Scenario, Pool, Queue, JobTemplate, Arrivals, Training, Serving, Fault, Calm)
    missing = {
        f"{part.__name__}.{key}" for part in parts for key in part.model_fields if f"`{key}`" not in text
    }
    missing |= {kind.value for kind in (*JobKind, *FaultKind, *CalmKind) if f"`{kind.value}`" not in text}
    missing |= {name for name in shipped_scenarios() if f"`{name}`" not in text}
    assert not missing
