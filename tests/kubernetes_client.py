"""Calls to a Kubernetes API server, on objects of any group, as the JSON they are.

What tests use to make a cluster's state. It is not how Trilens reads one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from servers import until

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator, Sequence

Json = dict[str, Any]
Query = Mapping[str, str | int]

_AT_ONCE = 8  # requests on their way in create_all; more are slower on two cores
_WATCH_S = 60.0  # a watch that says nothing for so long fails the test


class Resource(NamedTuple):
    """What objects of one kind are called, in the body and in the path."""

    group: str  # empty for the core group
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "") -> str:
        """Of one object; without a name, of all in the namespace; without that, of all."""
        parts = ["apis" if self.group else "api", self.api_version]
        if namespace:
            assert self.namespaced, f"{self.plural} lie in no namespace"
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        return "/" + "/".join([*parts, name] if name else parts)


NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
CRDS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)


class Refused(Exception):
    """The API server did not do what was asked."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(f"{answer.status_code} {answer.text}")
        self.code = answer.status_code


class KubernetesClient:
    """One user's calls. May be used from several threads."""

    def __init__(self, url: str, trust: ssl.SSLContext, token: str = "") -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        limits = httpx.Limits(max_keepalive_connections=_AT_ONCE)
        self._http = httpx.Client(
            base_url=url, verify=trust, headers=headers, timeout=_WATCH_S, limits=limits, trust_env=False
        )

    def close(self) -> None:
        self._http.close()

    def create(self, resource: Resource, manifest: Json, namespace: str = "") -> Json:
        return self.request("POST", resource.path(namespace), _named(resource, manifest))

    def create_all(self, resource: Resource, objects: Iterable[Json], namespace: str = "") -> Sequence[Json]:
        """Many at once; in the order given. The first refusal is raised."""
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            return list(threads.map(lambda manifest: self.create(resource, manifest, namespace), objects))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Json:
        return self.request("GET", resource.path(namespace, name))

    def list(self, resource: Resource, namespace: str = "", query: Query | None = None) -> Json:
        """The whole answer: its `items`, and the `resourceVersion` a watch goes on from in its `metadata`."""
        return self.request("GET", resource.path(namespace), query=query)

    def replace(self, resource: Resource, manifest: Json) -> Json:
        """The object as it was read, changed; refused with 409 when somebody else changed it meanwhile."""
        metadata = manifest["metadata"]
        path = resource.path(metadata.get("namespace", ""), metadata["name"])
        return self.request("PUT", path, _named(resource, manifest))

    def patch(self, resource: Resource, name: str, change: Json, namespace: str = "") -> Json:
        """A merge patch: what is named is set, null removes."""
        return self.request("PATCH", resource.path(namespace, name), change)

    def patch_status(self, resource: Resource, name: str, status: Json, namespace: str = "") -> Json:
        return self.request("PATCH", resource.path(namespace, name) + "/status", {"status": status})

    def delete(self, resource: Resource, name: str, namespace: str = "") -> Json:
        """At once, since no kubelet is there to end a pod that has a node."""
        return self.request("DELETE", resource.path(namespace, name), query={"gracePeriodSeconds": 0})

    @contextmanager
    def watch(
        self, resource: Resource, namespace: str = "", query: Query | None = None
    ) -> Iterator[Iterator[Json]]:
        """Events as they come, until the block ends."""
        asked = {"watch": "true", **(query or {})}
        with self._http.stream("GET", resource.path(namespace), params=asked) as answer:
            if answer.is_error:
                answer.read()
                raise Refused(answer)
            yield (json.loads(line) for line in answer.iter_lines())

    def define(self, resource: Resource, schema: Json | None = None) -> None:
        """A kind of an operator, with a status, unless it is there. Without a schema, objects keep whatever
        they hold."""
        scope = "Namespaced" if resource.namespaced else "Cluster"
        names = {"plural": resource.plural, "singular": resource.kind.lower(), "kind": resource.kind}
        version = {
            "name": resource.version,
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {
                "openAPIV3Schema": schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            },
        }
        spec = {"group": resource.group, "scope": scope, "names": names, "versions": [version]}
        try:
            self.create(CRDS, {"metadata": {"name": f"{resource.plural}.{resource.group}"}, "spec": spec})
        except Refused as e:
            if e.code != 409:  # tests share a server: another may have defined it
                raise
        until(lambda: self._is_discovered(resource), f"{resource.plural} are not served")

    def _is_discovered(self, resource: Resource) -> bool:
        try:
            served = self.request("GET", f"/apis/{resource.api_version}")["resources"]
        except Refused:
            return False  # the first of its group
        return any(entry["name"] == resource.plural for entry in served)

    def is_ready(self) -> bool:
        return self._http.get("/readyz").is_success

    def request(self, method: str, path: str, body: Json | None = None, query: Query | None = None) -> Json:
        """For what has no call of its own, such as /version."""
        content = None if body is None else json.dumps(body)
        body_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        answer = self._http.request(
            method, path, content=content, params=query, headers={"Content-Type": body_type}
        )
        if answer.is_error:
            raise Refused(answer)
        decoded: Json = answer.json()
        return decoded


def _named(resource: Resource, manifest: Json) -> Json:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
