"""Lists of objects, in pages that belong together: each shows the state of the first one's moment."""

from __future__ import annotations

import base64
import binascii
import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.simulate.over_http.discovery import is_built_in
from trilens.simulate.over_http.refusals import bad_request, expired, too_large_version
from trilens.simulate.over_http.requested import Selection, read_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.simulate.objects import KubeDict, ObjectTable, Resource
    from trilens.simulate.over_http.requested import ResourcePath

_TOKEN_VERSION: Final = "meta.k8s.io/v1"  # noqa: S105 - of a continue token
_TOO_OLD: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)


class Page(NamedTuple):
    metadata: dict[str, Any]
    items: list[KubeDict]

    def as_list(self, resource: Resource) -> dict[str, Any]:
        items = self.items
        if is_built_in(resource):  # typed lists do not say it again for each item; custom resources do
            items = [_without_type(obj) for obj in items]
        return {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version,
            "metadata": self.metadata,
            "items": items,
        }


class Pages:
    """Lists that were not read to their end are kept for a while, so that going on shows the same state."""

    def __init__(self, objects: ObjectTable, kept: int = 64) -> None:
        self._objects = objects
        self._kept = kept
        self._begun: OrderedDict[tuple[Resource, str | None, int], Sequence[KubeDict]] = OrderedDict()

    def page(self, path: ResourcePath, query: Mapping[str, str]) -> Page:
        """Raises Refusal: for what cannot be understood, and for a list that was begun too long ago."""
        selection = Selection(path, query)
        limit = read_number(query, "limit")
        asked_version = read_number(query, "resourceVersion")
        if asked_version > self._objects.resource_version:
            raise too_large_version(asked_version, self._objects.resource_version)
        version, start = self._objects.resource_version, ""
        if token := query.get("continue"):
            version, start = _read_token(token)
            objects = self._begun.get((path.resource, path.namespace, version))
            if objects is None:
                raise expired(_TOO_OLD)
        else:
            objects = self._in_order(path)
        left = [obj for obj in objects if _key(obj) >= start and selection.has(obj)]
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if limit and len(left) > limit:
            self._keep(path, version, objects)
            metadata["continue"] = _token(version, _key(left[limit - 1]) + "\0")
            if selection.is_whole:
                metadata["remainingItemCount"] = len(left) - limit
            left = left[:limit]
        return Page(metadata, left)

    def _in_order(self, path: ResourcePath) -> list[KubeDict]:
        resource = path.resource
        return sorted(
            self._objects.list(resource.group, resource.version, resource.plural, path.namespace), key=_key
        )

    def _keep(self, path: ResourcePath, version: int, objects: Sequence[KubeDict]) -> None:
        self._begun[path.resource, path.namespace, version] = objects
        self._begun.move_to_end((path.resource, path.namespace, version))
        if len(self._begun) > self._kept:
            self._begun.popitem(last=False)


def _key(obj: KubeDict) -> str:
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _without_type(obj: KubeDict) -> KubeDict:
    return {name: part for name, part in obj.items() if name not in ("apiVersion", "kind")}


def _token(version: int, start: str) -> str:
    text = json.dumps({"v": _TOKEN_VERSION, "rv": version, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        read = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        return int(read["rv"]), str(read["start"])
    except (ValueError, TypeError, KeyError, binascii.Error) as e:
        raise bad_request(f"invalid continue token: continue key is not valid: {e}") from e
