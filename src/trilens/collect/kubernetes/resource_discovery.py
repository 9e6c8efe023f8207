"""Which of the watched kinds a cluster serves, and in which version."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

import msgspec

from trilens.collect.kubernetes.rbac import VERBS
from trilens.collect.kubernetes.wire import Unreadable, decode
from trilens.model.errors import KubeApiError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.collect.kubernetes.api import KubeApi
    from trilens.collect.kubernetes.watched_kind import WatchedKind

_VERSION: Final = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES: Final = {"alpha": 0, "beta": 1, None: 2}
_T = TypeVar("_T")


class Served(NamedTuple):
    """A kind as this cluster has it."""

    kind: WatchedKind
    version: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "") -> str:
        group = self.kind.group_kind.group
        root = f"/apis/{group}/{self.version}" if group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if namespace else f"{root}/{self.plural}"


class Found(NamedTuple):
    """`unknown` are the kinds of which the server could not say, with the reason, by API group."""

    served: tuple[Served, ...]
    unknown: dict[str, str]


class _Version(msgspec.Struct):
    version: str


class _Group(msgspec.Struct, rename="camel"):
    name: str
    versions: list[_Version] = []
    preferred_version: _Version | None = None

    def in_order(self) -> list[str]:
        """The preferred one first, then the newest."""
        preferred = self.preferred_version.version if self.preferred_version else ""
        names = {version.version for version in self.versions}
        return sorted(names, key=lambda name: (name == preferred, *_age(name)), reverse=True)


# What a document is about must be in it, if only as null: a proxy's `{}` would be read as a cluster that
# serves nothing, and all of its objects as gone. A kind may be left out, as servers of aggregated APIs do.
class _Groups(msgspec.Struct):
    groups: list[_Group] | None
    kind: Literal["APIGroupList"] = "APIGroupList"


class _Core(msgspec.Struct):
    versions: list[str] | None
    kind: Literal["APIVersions"] = "APIVersions"


class _Resource(msgspec.Struct):
    name: str
    kind: str
    namespaced: bool
    verbs: list[str] = []


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None
    kind: Literal["APIResourceList"] = "APIResourceList"


class ResourceDiscovery:
    """`answer_s` is how long one document is waited for; None: as long as the connection lasts."""

    def __init__(self, api: KubeApi, kinds: Iterable[WatchedKind], *, answer_s: float | None = None) -> None:
        self._api = api
        self._answer_s = answer_s
        self._wanted: dict[str, list[WatchedKind]] = {}
        for kind in kinds:
            self._wanted.setdefault(kind.group_kind.group, []).append(kind)

    async def find(self) -> Found:
        """Raises KubeApiError when the server does not even say which groups it has."""
        listed = (await self._get("/apis", _Groups)).groups or ()
        groups = {group.name: group.in_order() for group in listed}
        groups[""] = (await self._get("/api", _Core)).versions or []
        unknown: dict[str, str] = {}

        async def look_in(group: str, wanted: Sequence[WatchedKind]) -> list[Served]:
            try:
                return await self._find_in(group, groups.get(group, ()), wanted)
            except KubeApiError as e:  # an aggregated API whose own server is down
                unknown[group] = e.message
                return []

        # Side by side: one whose server hangs must not keep the others waiting.
        found = await asyncio.gather(*(look_in(*one) for one in self._wanted.items()))
        return Found(tuple(served for here in found for served in here), unknown)

    async def _find_in(
        self, group: str, versions: Sequence[str], wanted: Sequence[WatchedKind]
    ) -> list[Served]:
        missing = {kind.group_kind.kind: kind for kind in wanted}
        found = []
        for version in versions:
            if not missing:
                break
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            for resource in (await self._get(path, _Resources)).resources or ():
                is_whole = "/" not in resource.name  # not pods/status
                if is_whole and resource.kind in missing and set(VERBS) <= set(resource.verbs):
                    kind = missing.pop(resource.kind)
                    found.append(Served(kind, version, resource.name, resource.namespaced))
        return found

    async def _get(self, path: str, answer: type[_T]) -> _T:
        try:
            async with asyncio.timeout(self._answer_s):
                body = await self._api.get(path)
        except TimeoutError as e:
            raise KubeApiError(f"no answer to {path} within {self._answer_s:g} s") from e
        try:
            return decode(body, answer)
        except Unreadable as e:
            raise KubeApiError(f"{path} gave no discovery document: {e}") from e


def assumed(kinds: Iterable[WatchedKind]) -> tuple[Served, ...]:
    """What every cluster has, for one that does not let us ask."""
    return tuple(Served(kind, kind.version, kind.plural, kind.namespaced) for kind in kinds if kind.version)


def _age(version: str) -> tuple[int, int, int]:
    """The larger the newer, as Kubernetes orders versions: v2, v1, v2beta1, v1beta2, v1alpha1."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return -1, 0, 0
    return _STAGES[match[2]], int(match[1]), int(match[3] or 0)
