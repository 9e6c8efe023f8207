"""Nodes of a simulated cluster say what was bought as those of a real cloud do."""

from __future__ import annotations

import pytest

from kube_objects import to_object
from trilens.resolve.machines import machine_of
from trilens.settings.topology import TopologySettings
from trilens.simulate.scenario import Pool, Scenario
from trilens.simulate.world import World

START_MS = 1_768_392_000_000


@pytest.mark.parametrize(
    ("pool", "expected"),
    [
        (
            {"model": "H100", "zone": "us-east-1b"},
            ("p5.48xlarge", "us-east-1", "us-east-1b", "on-demand", "NVIDIA H100 80GB HBM3", 8, 192.0),
        ),
        (
            {"model": "H100", "mig": "1g.10gb", "spot": True},
            ("p5.48xlarge", "us-east-1", "us-east-1a", "spot", "NVIDIA H100 80GB HBM3", 8, 192.0),
        ),
        (
            {"model": "L40S", "gpus_per_node": 4, "time_slices": 4},
            ("g6e.12xlarge", "us-east-1", "us-east-1a", "on-demand", "NVIDIA L40S", 4, 48.0),
        ),
        (
            {"model": "A100", "region": "eu-west-1", "zone": "eu-west-1c", "instance_type": "p4de.24xlarge"},
            ("p4de.24xlarge", "eu-west-1", "eu-west-1c", "on-demand", "NVIDIA A100 SXM4 80GB", 8, 96.0),
        ),
        (
            {"model": "H100", "gpus_per_node": 3},
            ("sim.h100.3x", "us-east-1", "us-east-1a", "on-demand", "NVIDIA H100 80GB HBM3", 3, 72.0),
        ),
    ],
    ids=["whole", "mig-spot", "time-sliced", "elsewhere", "sold-by-nobody"],
)
def test_what_a_node_says_of_itself(pool: dict[str, object], expected: tuple[object, ...]) -> None:
    scenario = Scenario(name="one", pools=(Pool.model_validate({"name": "pool", "nodes": 1, **pool}),))
    world = World(scenario, start_ms=START_MS, seed=1)
    (node,) = world.objects.list("", "v1", "nodes")
    found = machine_of(to_object(node), TopologySettings()).machine
    assert found.provider == "aws"
    assert found.storage_bytes is not None
    assert (
        found.instance_type,
        found.region,
        found.zone,
        found.purchase,
        found.gpu_model,
        found.gpus,
        found.cpus,
    ) == expected
