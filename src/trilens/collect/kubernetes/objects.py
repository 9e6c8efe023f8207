"""From the API server's JSON to the object that crosses the seam, cut down to what is used."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec reads annotations when it runs
from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilens.collect.kubernetes.mask import Trimmer
from trilens.collect.kubernetes.wire import Unreadable
from trilens.model.kubernetes import KubeObject, OwnerRef

if TYPE_CHECKING:
    from trilens.collect.kubernetes.watched_kind import WatchedKind

_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_LONG_ANNOTATION: Final = 4096  # characters; beyond it stand documents for other programs

Texts = dict[str, str]


class _Owner(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = False


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    uid: str
    resource_version: str
    creation_timestamp: datetime
    namespace: str = ""
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = 0
    labels: Texts | None = None
    annotations: Texts | None = None
    owner_references: list[_Owner] | None = None


class ObjectReader:
    """Reads objects of one cluster. Long annotations are left out unless all are wanted."""

    def __init__(self, cluster: str, *, all_annotations: bool = False) -> None:
        self._cluster = cluster
        self._all_annotations = all_annotations
        self._trimmer = Trimmer()
        self._whole = msgspec.json.Decoder(dict[str, Any])

    def read(self, kind: WatchedKind, version: str, raw: msgspec.Raw | bytes) -> KubeObject:
        try:
            whole = self._whole.decode(raw)
            metadata = msgspec.convert(whole.pop("metadata", None), _Metadata)
            body = self._trimmer.trim(whole, kind.mask) if kind.mask else {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
            raise Unreadable(str(e)) from e
        if kind.refine is not None:
            kind.refine(body)
        text = self._trimmer.text
        annotations = metadata.annotations or {}
        return KubeObject(
            cluster=self._cluster,
            group=kind.group_kind.group,
            version=version,
            kind=kind.group_kind.kind,
            namespace=text(metadata.namespace),
            name=metadata.name,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            created_ms=_ms(metadata.creation_timestamp),
            deleted_ms=_deleted_ms(metadata),
            labels=self._trimmer.texts(metadata.labels or {}),
            annotations=self._trimmer.texts(annotations if self._all_annotations else _short(annotations)),
            owners=tuple(self._owner(owner) for owner in metadata.owner_references or ()),
            body=body,
        )

    def _owner(self, owner: _Owner) -> OwnerRef:
        text = self._trimmer.text
        group = owner.api_version.rpartition("/")[0]
        return OwnerRef(
            text(group), text(owner.kind), text(owner.name), text(owner.uid), owner.controller is True
        )


def _short(annotations: Texts) -> Texts:
    return {
        name: value
        for name, value in annotations.items()
        if name != _LAST_APPLIED and len(value) <= _LONG_ANNOTATION
    }


def _deleted_ms(metadata: _Metadata) -> int | None:
    """Since when it is being deleted. Kubernetes writes down when it will be over."""
    if metadata.deletion_timestamp is None:
        return None
    return _ms(metadata.deletion_timestamp) - 1000 * (metadata.deletion_grace_period_seconds or 0)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
