"""The names of a cluster's CustomResourceDefinitions: they say at once when an operator comes or goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.collect.kubernetes.informer import Informer, Scope
from trilens.collect.kubernetes.rbac import DEFINITIONS, DEFINITIONS_GROUP
from trilens.collect.kubernetes.resource_discovery import Served
from trilens.collect.kubernetes.watched_kind import watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trilens.collect.kubernetes.api import KubeApi
    from trilens.collect.kubernetes.objects import ObjectReader
    from trilens.collect.kubernetes.rbac import Grant
    from trilens.collect.kubernetes.state import ResourceState
    from trilens.collect.kubernetes.timing import WatchTiming
    from trilens.collect.kubernetes.watched_kind import WatchedKind
    from trilens.model.kubernetes import KubeObject

_KIND: Final = watched(DEFINITIONS_GROUP, "CustomResourceDefinition", DEFINITIONS, "", namespaced=False)
# Their schemas are large, and only the names are wanted.
_NAMES_ONLY: Final = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"


class Definitions:
    """Without the permission to read them, discovery alone finds what there is, once a minute."""

    def __init__(
        self,
        kinds: Iterable[WatchedKind],
        api: KubeApi,
        reader: ObjectReader,
        timing: WatchTiming,
        on_change: Callable[[], None],
    ) -> None:
        self._wanted = {kind.definition for kind in kinds}
        self._on_change = on_change
        self._names: set[str] = set()
        self.informer = Informer(
            Served(_KIND, "v1", DEFINITIONS, namespaced=False),
            Scope(),
            api,
            reader,
            self,
            timing,
            list_as=_NAMES_ONLY.format("List"),
            watch_as=_NAMES_ONLY.format(""),
        )

    def state(self) -> ResourceState:
        return self.informer.state()

    def expected(self) -> set[str]:
        """Those that are wanted and are, or are about to be, served."""
        return self._names & self._wanted

    def is_gone(self, kind: WatchedKind) -> bool:
        """Known to be defined no longer."""
        state = self.informer.state()
        trusted = state.synced and state.trouble is None
        return trusted and kind.by_operator and kind.definition not in self._names

    def changed(self, obj: KubeObject) -> None:
        if obj.deleted_ms is not None:
            self.removed(obj)  # it may wait for its objects to go, and serves nothing new
            return
        self._names.add(obj.name)
        self._tell(obj)

    def removed(self, obj: KubeObject) -> None:
        self._names.discard(obj.name)
        self._tell(obj)

    def read_through(self, informer: Informer) -> None:
        pass

    def refused(self, informer: Informer, grant: Grant) -> None:
        pass

    def is_absent(self, informer: Informer) -> None:
        pass

    def _tell(self, obj: KubeObject) -> None:
        if obj.name in self._wanted:
            self._on_change()
