"""Simulated clusters for tests, and how to read what they say."""

from __future__ import annotations

from typing import NamedTuple

from trilens.simulate.scenario import Fault, FaultKind, load_scenario, read_scenario
from trilens.simulate.telling import MOST_RANKS
from trilens.simulate.world import World

START_MS = 1_768_392_000_000  # 2026-01-14T12:00:00Z

SMALL = """
name: small
pools:
  - {name: h100, model: H100, nodes: 3}
jobs:
  - name: train
    kind: PyTorchJob
    namespace: research
    team: vision
    pool: h100
    pods: 2
    gpus_per_pod: 4
    arrivals: {at_start: 1}
    training: {checkpoint_every: 100}
"""


def small(faults: str = "", jobs: str = "", seed: int = 1, telling_ranks: int = MOST_RANKS) -> World:
    """One training job of eight ranks on three nodes. `faults` and `jobs`: more lines of YAML."""
    text = SMALL + jobs + ("faults:\n" + faults if faults else "")
    scenario = read_scenario(text, "small.yaml")
    return World(scenario, start_ms=START_MS, seed=seed, telling_ranks=telling_ranks)


def chaotic(seed: int) -> World:
    """The default scenario with every kind of fault again and again."""
    codes = (13, 31, 48, 63, 74, 79, 94, 119)
    faults = [Fault(kind=kind, per_hour=1.5, lasts=500) for kind in FaultKind]
    faults += [Fault(kind=FaultKind.XID, per_hour=0.7, code=code, lasts=1200) for code in codes]
    scenario = load_scenario("default").model_copy(update={"name": "chaos", "faults": tuple(faults)})
    return World(scenario, start_ms=START_MS, seed=seed)


def after(world: World, minutes: float) -> World:
    """So many minutes after its beginning."""
    world.advance(START_MS + round(minutes * 60_000))
    return world


class Row(NamedTuple):
    name: str
    labels: dict[str, str]
    value: float


def rows(text: bytes) -> list[Row]:
    found = []
    for line in text.decode().splitlines():
        if line.startswith("#"):
            continue
        name, _, rest = line.partition("{")
        labels, _, value = rest.rpartition("} ")
        pairs = (pair.partition("=") for pair in labels.split(",") if pair)
        found.append(Row(name, {key: text.strip('"') for key, _, text in pairs}, float(value)))
    return found


def reading(world: World, uuid: str, family: str) -> float:
    """Of the GPU, in DCGM's units."""
    for node in world.nodes:
        for row in rows(world.dcgm_text(node)):
            if row.name == family and row.labels["UUID"] == uuid:
                return row.value
    raise KeyError((uuid, family))


def gpu_of_rank(world: World, rank: int) -> str:
    """The GPU that this rank has now; of a world with one training job."""
    (found,) = (one.gpu_uuid for one in world.truth.gpus if one.rank == rank and one.to_ms is None)
    return found


def metrics(world: World, job: str = "train") -> list[Row]:
    """All that the pods of a job serve now."""
    found: list[Row] = []
    for uid, endpoint in world.metrics_endpoints().items():
        if endpoint.pod.startswith(job):
            found += rows(world.metrics_text(uid))
    return found


def of_rank(world: World, name: str, rank: int, **labels: str) -> float:
    (value,) = (
        row.value
        for row in metrics(world)
        if row.name == name and row.labels["rank"] == str(rank) and labels.items() <= row.labels.items()
    )
    return value
