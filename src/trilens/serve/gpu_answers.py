"""What /api/gpus answers, as types: the OpenAPI schema is made from them. Times are in milliseconds."""

from __future__ import annotations

import msgspec

from trilens.serve.doubt_answer import DoubtAnswer  # noqa: TC001 - msgspec reads annotations when it runs


class HolderAnswer(msgspec.Struct, frozen=True):
    """A container that has a GPU, or a part of it: `share` of the whole device, written as a fraction."""

    cluster: str
    namespace: str
    pod: str
    container: str
    workload: str | None
    kind: str | None
    attempt: int | None
    rank: int | None
    local_rank: int | None
    share: str | None
    sources: list[str]
    from_ms: int
    doubts: list[DoubtAnswer]


class GpuFaultAnswer(msgspec.Struct, frozen=True):
    """An Xid that asks for a reset of the GPU, or for its node to be taken out."""

    text: str
    action: str
    since_ms: int


class GpuAnswer(msgspec.Struct, frozen=True):
    """A GPU, or a MIG instance of one, and who holds it. Null is unknown.

    `state` is reporting, silent (it does not now, and did minutes ago or is held), lost (its node should have
    it), or blind (of its node no GPU reports at all). Lost and blind ones that never reported have no uuid,
    and `count` says how many they are. `fault` is one that nothing shows to be mended: such a GPU may report
    as if it were well. Readings and faults are known for the present only.
    """

    cluster: str
    node: str
    index: str | None
    model: str | None
    uuid: str | None
    instance: str | None
    profile: str | None
    state: str
    count: int
    seen_ms: int | None
    utilization: float | None
    memory_used_bytes: float | None
    power_watts: float | None
    holders: list[HolderAnswer]
    doubts: list[DoubtAnswer]
    fault: GpuFaultAnswer | None = None
