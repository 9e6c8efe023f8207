"""Whose objects a case wants, and who has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.model.verdict import Missing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trilens.diagnose.case_file import LogText, Probe
    from trilens.model.kubernetes import GroupKind, KubeObject
    from trilens.model.workload import PodKey, WorkloadKey

_WATCH: Final = "see kubernetes.clusters in the settings"


class About(NamedTuple):
    cluster: str
    workloads: Collection[WorkloadKey]
    pods: Collection[PodKey]
    nodes: Collection[str]
    node: str | None = None  # where the case is about one


class Objects(NamedTuple):
    objects: tuple[KubeObject, ...] = ()
    missing: tuple[Missing, ...] = ()
    kinds: tuple[GroupKind, ...] = ()  # of which all that the cluster has are among the objects


class Probed(NamedTuple):
    probes: tuple[Probe, ...] = ()
    missing: tuple[Missing, ...] = ()


class Written(NamedTuple):
    logs: tuple[LogText, ...] = ()
    missing: tuple[Missing, ...] = ()
    pods: frozenset[PodKey] = frozenset()  # of which all that they wrote last is here, if anything


class ObjectSource(Protocol):
    """`until` is by the clock of the loop: what has come by then is the answer."""

    async def ask(self, about: About, until: float) -> Objects:
        """As they are now. What cannot be had is missing, and says what to do about it."""

    def neighbours(self, about: About, objects: Collection[KubeObject]) -> Objects:
        """Other pods that matter to these objects. To be asked in a thread."""

    async def logs(
        self,
        about: About,
        objects: Collection[KubeObject],
        pods: Collection[PodKey],
        ranks: Mapping[PodKey, int],
        until: float,
    ) -> Written:
        """What the containers of these pods wrote last; of those that are among the objects."""

    async def probe(self, about: About, objects: Collection[KubeObject]) -> Probed:
        """Runs nvidia-smi in the containers of the pods among these."""

    async def close(self) -> None: ...


class NoObjects:
    """Where no cluster is watched."""

    async def ask(self, about: About, until: float) -> Objects:
        return Objects()

    def neighbours(self, about: About, objects: Collection[KubeObject]) -> Objects:
        return Objects()

    async def logs(
        self,
        about: About,
        objects: Collection[KubeObject],
        pods: Collection[PodKey],
        ranks: Mapping[PodKey, int],
        until: float,
    ) -> Written:
        return Written()

    async def probe(self, about: About, objects: Collection[KubeObject]) -> Probed:
        return Probed(missing=(Missing("what its containers see of GPUs: no cluster is watched", _WATCH),))

    async def close(self) -> None:
        pass
