"""What may be changed in a cluster: an object patched, a command made, a pod evicted or deleted. Reading
takes no more than the permissions to watch; each change takes one of its own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from trilens.collect.kubernetes.api import FORBIDDEN, NOT_FOUND, KubeApi
from trilens.collect.kubernetes.rbac import COMMANDS, COMMANDS_GROUP, Grant
from trilens.collect.kubernetes.resource_discovery import ResourceDiscovery, assumed
from trilens.collect.kubernetes.watched_kind import watched
from trilens.model.errors import KubeApiError, NotFound
from trilens.model.kubernetes import GroupKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.collect.kubernetes.access import Access
    from trilens.collect.kubernetes.resource_discovery import Served
    from trilens.collect.kubernetes.watched_kind import WatchedKind
    from trilens.model.fix import FixTarget

Json = dict[str, Any]

COMMAND: Final = watched(COMMANDS_GROUP, "Command", COMMANDS, "*", by_operator=True)
MERGE_PATCH: Final = "application/merge-patch+json"
_DISCOVERED_S: Final = 60.0
_DRY_RUN: Final = {"dryRun": "All"}
_EVICTION: Final = "pods/eviction"
_OLDEST_EVICTION: Final = "policy/v1beta1"  # before 1.22 there is no other


class _Subresource(msgspec.Struct):
    name: str
    group: str = ""
    version: str = ""


class _Resources(msgspec.Struct):
    resources: list[_Subresource]


class Refusal(NamedTuple):
    """Of whoever asks too much at once: a PodDisruptionBudget."""

    text: str
    retry_after_s: float | None


class ObjectWrites:
    """To one cluster. Failures are KubeApiError or NotFound. Belongs to one event loop; `close` it there."""

    def __init__(self, access: Access, kinds: Sequence[WatchedKind]) -> None:
        self._api = KubeApi(access)
        self._kinds = (*kinds, COMMAND)
        self._served: tuple[float, dict[GroupKind, Served]] | None = None
        self._eviction: str | None = None

    async def close(self) -> None:
        await self._api.close()

    async def get(self, target: FixTarget) -> Json:
        """As it is now; asked for with a list of one, which needs no permission but that to watch. NotFound
        where another has its name by now."""
        served = await self._find(target)
        query = {"fieldSelector": f"metadata.name={target.name}"}
        found = await self._list(served, target.namespace, query)
        if not found:
            raise NotFound(f"there is no {target}")
        if target.uid and (found[0].get("metadata") or {}).get("uid") != target.uid:
            raise NotFound(f"{target} is gone, and what has its name now is another", hint="look who has it")
        return found[0]

    async def labelled(self, target: FixTarget, label: str) -> list[Json]:
        """All objects of that kind, wherever they lie, that have this label: in one page, to be counted."""
        served = await self._find(target)
        return await self._list(served, "", {"labelSelector": label})

    async def patch(self, target: FixTarget, change: Mapping[str, Any], *, dry_run: bool) -> Json:
        """As it is afterwards. The API server refuses a uid that is not the object's."""
        if target.uid:
            change = {**change, "metadata": {**change.get("metadata", {}), "uid": target.uid}}
        served = await self._find(target)
        grant = Grant("patch", target.group, served.plural, target.namespace)
        path = f"{served.path(target.namespace)}/{target.name}"
        return await self._sent("PATCH", path, change, grant, dry_run=dry_run, body_type=MERGE_PATCH)

    async def command(self, target: FixTarget, body: Mapping[str, Any], *, dry_run: bool) -> None:
        """To the operator of this job, in its namespace."""
        served = await self._served_as(COMMAND.group_kind, target.cluster)
        grant = Grant("create", COMMAND.group_kind.group, served.plural, target.namespace)
        whole = {"apiVersion": f"{COMMAND.group_kind.group}/{served.version}", **body}
        await self._sent("POST", served.path(target.namespace), whole, grant, dry_run=dry_run)

    async def delete(self, pod: FixTarget, uid: str, *, dry_run: bool) -> None:
        served = await self._find(pod)
        grant = Grant("delete", pod.group, served.plural, pod.namespace)
        # Where options come in a body, the API server reads none from the query: dryRun must be in it.
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **_only_this_one(uid, dry_run=dry_run)}
        await self._sent("DELETE", f"{served.path(pod.namespace)}/{pod.name}", body, grant, dry_run=dry_run)

    async def evict(self, pod: FixTarget, uid: str, *, dry_run: bool) -> Refusal | None:
        """What stands against it now, which may be over later; None where nothing does."""
        body = eviction(await self._eviction_version(), pod.namespace, pod.name, uid, dry_run=dry_run)
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/eviction"
        grant = Grant("create", "", _EVICTION, pod.namespace)
        try:
            await self._sent("POST", path, body, grant, dry_run=dry_run)
        except KubeApiError as e:
            if e.status == 429:
                return Refusal(e.message, e.retry_after_s)
            raise
        return None

    async def _sent(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any],
        grant: Grant,
        *,
        dry_run: bool,
        body_type: str = "application/json",
    ) -> Json:
        query = _DRY_RUN if dry_run else {}
        try:
            answer = await self._api.send(method, path, body, query=query, body_type=body_type)
        except KubeApiError as e:
            if e.status == FORBIDDEN:
                error = KubeApiError(f"{e.message}; {grant}", status=FORBIDDEN)
                error.hint = "`trilens kubernetes rbac --fix` prints the role"
                raise error from e
            if e.status == NOT_FOUND:
                raise NotFound(e.message) from e
            raise
        return answer if isinstance(answer, dict) else {}

    async def _list(self, served: Served, namespace: str, query: Mapping[str, str]) -> list[Json]:
        body = await self._api.get(served.path(namespace if served.namespaced else ""), query)
        try:
            items = msgspec.json.decode(body).get("items") or []
        except (msgspec.DecodeError, AttributeError) as e:
            raise KubeApiError(f"no list of {served.plural} was answered") from e
        return [one for one in items if isinstance(one, dict)]

    async def _find(self, target: FixTarget) -> Served:
        return await self._served_as(GroupKind(target.group, target.kind), target.cluster)

    async def _served_as(self, kind: GroupKind, cluster: str) -> Served:
        now = time.monotonic()
        if self._served is None or now - self._served[0] > _DISCOVERED_S:
            try:
                found = (await ResourceDiscovery(self._api, self._kinds).find()).served
            except KubeApiError as e:
                if e.status != FORBIDDEN:
                    raise
                found = assumed(self._kinds)
            self._served = now, {one.kind.group_kind: one for one in found}
        served = self._served[1].get(kind)
        if served is None:
            raise NotFound(f"the cluster {cluster} does not serve {kind}")
        return served

    async def _eviction_version(self) -> str:
        """The API server names it itself: policy/v1 from 1.22 on."""
        if self._eviction is None:
            body = await self._api.get("/api/v1")
            try:
                resources = msgspec.json.decode(body, type=_Resources).resources
            except msgspec.DecodeError as e:
                raise KubeApiError(f"/api/v1 gave no discovery document: {e}") from e
            found = next((one for one in resources if one.name == _EVICTION), None)
            named = found is not None and found.group and found.version
            self._eviction = f"{found.group}/{found.version}" if found and named else _OLDEST_EVICTION
        return self._eviction


def eviction(api_version: str, namespace: str, pod: str, uid: str, *, dry_run: bool) -> Json:
    metadata = {"name": pod, "namespace": namespace}
    options = _only_this_one(uid, dry_run=dry_run)
    return {"apiVersion": api_version, "kind": "Eviction", "metadata": metadata, "deleteOptions": options}


def _only_this_one(uid: str, *, dry_run: bool) -> Json:
    """And no other pod of its name, which may have come since."""
    options: Json = {"preconditions": {"uid": uid}}
    return {**options, "dryRun": ["All"]} if dry_run else options
