"""What a request to the API server asks for: a path and its query, understood."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.simulate.objects import resource_named
from trilens.simulate.over_http.refusals import Refusal, bad_request
from trilens.simulate.over_http.selectors import by_fields, by_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.simulate.objects import KubeDict, Resource


class ResourcePath(NamedTuple):
    resource: Resource
    namespace: str | None  # None for all of them
    name: str  # "" for all objects


class Selection:
    """Those objects that a request means."""

    def __init__(self, path: ResourcePath, query: Mapping[str, str]) -> None:
        """Raises Refusal for selectors that cannot be understood."""
        self.is_whole = not query.get("labelSelector") and not query.get("fieldSelector")
        self._namespace = path.namespace
        self._requirements = (
            *by_labels(query.get("labelSelector", "")),
            *by_fields(query.get("fieldSelector", ""), path.resource.kind),
        )

    def has(self, obj: KubeDict | None) -> bool:
        if obj is None:
            return False
        if self._namespace is not None and obj["metadata"].get("namespace", "") != self._namespace:
            return False
        return all(holds(obj) for holds in self._requirements)


def read_path(group: str, version: str, rest: list[str]) -> ResourcePath:
    """`rest` is what follows the version. Raises Refusal for what is not served."""
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces":
        namespace, rest = rest[1], rest[2:]
    try:
        resource = resource_named(group, rest[0])
    except KeyError:
        raise _no_such_resource() from None
    misplaced = namespace is not None and not resource.namespaced
    if resource.version != version or misplaced or len(rest) > 2:
        raise _no_such_resource()
    return ResourcePath(resource, namespace, rest[1] if len(rest) == 2 else "")


def read_number(query: Mapping[str, str], name: str) -> int:
    """0 where it is not given."""
    text = query.get(name, "")
    if text and not (text.isascii() and text.isdigit()):
        raise bad_request(f'{name}: strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text or 0)


def is_true(query: Mapping[str, str], name: str) -> bool:
    """As Go reads a flag of a URL."""
    return query.get(name, "false").lower() not in ("0", "f", "false")


def _no_such_resource() -> Refusal:
    return Refusal(404, "NotFound", "the server could not find the requested resource", {})
