"""Where objects go: what the intake needs from whoever makes sense of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from trilens.model.kubernetes import GroupKind, KubeObject


class ObjectSink(Protocol):
    """Called on the event loop of the intake, and so to return soon.

    An object may be told again as it was: after a restart everything is new to us.
    """

    def changed(self, obj: KubeObject) -> None:
        """It is there now, or is now so."""

    def removed(self, obj: KubeObject) -> None:
        """It is gone; this is how it was last seen. An Event never goes: that it expires undoes nothing."""

    def synced(self, cluster: str, kind: GroupKind) -> None:
        """All that there is of this kind has been told. Said again after each full reading."""

    def refused(self, cluster: str, kind: GroupKind, remedy: str) -> None:
        """Objects of this kind may not be read, in some namespace at least; until it is synced again."""


class Several:
    """One sink that tells several."""

    def __init__(self, *sinks: ObjectSink) -> None:
        self._sinks = sinks

    def changed(self, obj: KubeObject) -> None:
        for sink in self._sinks:
            sink.changed(obj)

    def removed(self, obj: KubeObject) -> None:
        for sink in self._sinks:
            sink.removed(obj)

    def synced(self, cluster: str, kind: GroupKind) -> None:
        for sink in self._sinks:
            sink.synced(cluster, kind)

    def refused(self, cluster: str, kind: GroupKind, remedy: str) -> None:
        for sink in self._sinks:
            sink.refused(cluster, kind, remedy)
