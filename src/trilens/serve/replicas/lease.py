"""A Lease of Kubernetes (coordination.k8s.io/v1), read and written only as it was last seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilens.collect.kubernetes.api import NOT_FOUND
from trilens.model.errors import KubeApiError
from trilens.serve.replicas.election import Held

if TYPE_CHECKING:
    from trilens.collect.kubernetes.api import KubeApi

ADDRESS: Final = "trilens.io/address"
_CONFLICT: Final = 409


class LeaseTaken(Exception):
    """Somebody else has written meanwhile."""


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _Lease(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class KubernetesLease:
    """Belongs to one event loop. Everything raises KubeApiError."""

    def __init__(self, api: KubeApi, namespace: str, name: str) -> None:
        self._api = api
        self._namespace, self._name = namespace, name
        self._all = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._version: str | None = None
        self._annotations: dict[str, str] = {}  # those of others stay

    async def read(self) -> Held | None:
        try:
            found = msgspec.json.decode(await self._api.get(f"{self._all}/{self._name}"), type=_Lease)
        except KubeApiError as e:
            if e.status != NOT_FOUND:
                raise
            self._version = None
            return None
        except msgspec.DecodeError as e:
            raise KubeApiError(f"the lease {self._namespace}/{self._name} is not readable: {e}") from e
        return self._taken_in(found)

    async def write(self, held: Held) -> None:
        """Raises LeaseTaken where it is not as it was read."""
        meta = {"name": self._name, "annotations": {**self._annotations, ADDRESS: held.address}}
        body: dict[str, Any] = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": meta if self._version is None else {**meta, "resourceVersion": self._version},
            "spec": {
                "holderIdentity": held.holder,
                "leaseDurationSeconds": held.duration_s,
                "acquireTime": held.acquired,
                "renewTime": held.renewed,
                "leaseTransitions": held.transitions,
            },
        }
        try:
            if self._version is None:
                answer = await self._api.send("POST", self._all, body)
            else:
                answer = await self._api.send("PUT", f"{self._all}/{self._name}", body)
        except KubeApiError as e:
            if e.status in (_CONFLICT, NOT_FOUND):
                raise LeaseTaken(e.message) from e
            raise
        try:
            self._taken_in(msgspec.convert(answer, _Lease))
        except msgspec.ValidationError as e:
            raise KubeApiError(f"the lease {self._namespace}/{self._name} is not readable: {e}") from e

    async def close(self) -> None:
        await self._api.close()

    def _taken_in(self, lease: _Lease) -> Held:
        self._version, self._annotations = lease.metadata.resource_version, lease.metadata.annotations or {}
        spec = lease.spec
        return Held(
            spec.holder_identity or "",
            self._annotations.get(ADDRESS, ""),
            spec.lease_duration_seconds or 0,
            spec.acquire_time or "",
            spec.renew_time or "",
            spec.lease_transitions or 0,
        )
