"""Workloads as a sight shows them: who owns one now sees all that was ever known of it, and nobody else."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from trilens.model.life import MembershipInterval
    from trilens.model.query import QueryGuard
    from trilens.model.workload import Workload, WorkloadKey
    from trilens.serve.access.sight import Sight
    from trilens.store.workloads import Span, WorkloadHistory


class Workloads(Protocol):
    """What is asked of the records of workloads."""

    def during(
        self,
        span: Span,
        *,
        cluster: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        guard: QueryGuard | None = None,
    ) -> list[WorkloadHistory]: ...

    def named(
        self,
        name: str,
        *,
        cluster: str,
        namespace: str,
        kind: str,
        until_ms: int,
        guard: QueryGuard | None = None,
    ) -> list[WorkloadHistory]: ...

    def whole(self, key: WorkloadKey, until_ms: int, guard: QueryGuard | None = None) -> WorkloadHistory: ...

    def called(
        self, names: Collection[tuple[str, str, str]], guard: QueryGuard | None = None
    ) -> list[Workload]: ...

    def members_among(
        self, pods: Collection[tuple[str, str, str]], span: Span, guard: QueryGuard | None = None
    ) -> list[MembershipInterval]: ...

    def members_at(self, at_ms: int, guard: QueryGuard | None = None) -> list[MembershipInterval]: ...


def seen_workloads(records: Workloads, sight: Sight) -> Workloads:
    return records if sight.is_whole else _SeenWorkloads(records, sight)


def shown_keys(
    records: Workloads, sight: Sight, keys: Iterable[WorkloadKey], guard: QueryGuard | None = None
) -> frozenset[WorkloadKey]:
    """Those that are seen. One of which only the name is known is, if all that had that name are."""
    near = frozenset(key for key in keys if sight.shows_cluster(key.cluster))
    if sight.teams is None:
        return near
    exact: dict[WorkloadKey, bool] = {}
    namesakes: defaultdict[tuple[str, str, str, str], list[bool]] = defaultdict(list)
    for one in records.called({(key.namespace, key.kind, key.name) for key in near}, guard):
        shown = sight.shows(one.key.cluster, one.team)
        exact[one.key] = shown
        namesakes[_name(one.key)].append(shown)
    alike = {name: all(each) for name, each in namesakes.items()}
    return frozenset(key for key in near if exact.get(key, not key.uid and alike.get(_name(key), False)))


class _SeenWorkloads:
    def __init__(self, records: Workloads, sight: Sight) -> None:
        self._records = records
        self._sight = sight

    def during(
        self,
        span: Span,
        *,
        cluster: str | None = None,
        namespace: str | None = None,
        name: str | None = None,
        guard: QueryGuard | None = None,
    ) -> list[WorkloadHistory]:
        found = self._records.during(span, cluster=cluster, namespace=namespace, name=name, guard=guard)
        return [one for one in found if self._shows(one.record)]

    def named(
        self,
        name: str,
        *,
        cluster: str,
        namespace: str,
        kind: str,
        until_ms: int,
        guard: QueryGuard | None = None,
    ) -> list[WorkloadHistory]:
        found = self._records.named(
            name, cluster=cluster, namespace=namespace, kind=kind, until_ms=until_ms, guard=guard
        )
        return [one for one in found if self._shows(one.record)]

    def whole(self, key: WorkloadKey, until_ms: int, guard: QueryGuard | None = None) -> WorkloadHistory:
        """Of one that was found here before."""
        found = self._records.whole(key, until_ms, guard)
        if not self._shows(found.record):
            raise LookupError(key)
        return found

    def called(
        self, names: Collection[tuple[str, str, str]], guard: QueryGuard | None = None
    ) -> list[Workload]:
        return [one for one in self._records.called(names, guard) if self._shows(one)]

    def members_among(
        self, pods: Collection[tuple[str, str, str]], span: Span, guard: QueryGuard | None = None
    ) -> list[MembershipInterval]:
        return self._own(self._records.members_among(pods, span, guard), guard)

    def members_at(self, at_ms: int, guard: QueryGuard | None = None) -> list[MembershipInterval]:
        return self._own(self._records.members_at(at_ms, guard), guard)

    def _own(self, members: list[MembershipInterval], guard: QueryGuard | None) -> list[MembershipInterval]:
        shown = shown_keys(self._records, self._sight, {one.membership.workload for one in members}, guard)
        return [one for one in members if one.membership.workload in shown]

    def _shows(self, record: Workload) -> bool:
        return self._sight.shows(record.key.cluster, record.team)


def _name(key: WorkloadKey) -> tuple[str, str, str, str]:
    return key.cluster, key.namespace, key.kind, key.name
