"""What Kubernetes warns of about pods that ask for a GPU, for the record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from trilens.model.event import EventKind, EventRecord, Victim
from trilens.resolve.accelerators import wants_accelerator
from trilens.resolve.events import EVENT_KINDS, MOST_REASONS, MOST_STRANGERS, about_whom, happened_ms
from trilens.resolve.objects import POD
from trilens.resolve.reading import section, text

if TYPE_CHECKING:
    from trilens.model.kubernetes import GroupKind, KubeObject


class EventSink(Protocol):
    def event(self, event: EventRecord) -> None: ...


class PodWarnings:
    """Hears of all objects, of all clusters. Warnings come before their pods in the first lists, and wait."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._with_gpu: dict[str, bool] = {}  # by the uid of a pod that is there
        self._waiting: dict[str, dict[str, EventRecord]] = {}  # by the pod's uid, then by the event's

    def changed(self, obj: KubeObject) -> None:
        if obj.group_kind in EVENT_KINDS:
            self._heard(obj)
        elif obj.group_kind == POD and obj.uid not in self._with_gpu:
            self._with_gpu[obj.uid] = wants_accelerator(obj)
            waited = self._waiting.pop(obj.uid, {})
            if self._with_gpu[obj.uid]:
                for event in waited.values():
                    self._sink.event(event)

    def removed(self, obj: KubeObject) -> None:
        if obj.group_kind == POD:
            self._with_gpu.pop(obj.uid, None)

    def synced(self, cluster: str, kind: GroupKind) -> None:
        pass

    def refused(self, cluster: str, kind: GroupKind, remedy: str) -> None:
        pass

    def _heard(self, event: KubeObject) -> None:
        about = about_whom(event)
        if text(event.body, "type") != "Warning" or about.kind != POD.kind or not about.uid:
            return
        told = EventRecord(
            node=text(section(event.body, "source"), "host"),
            id=event.uid,
            t_ms=happened_ms(event),
            kind=EventKind.WARNING,
            code=None,
            text=text(event.body, "message") or text(event.body, "note"),
            title=text(event.body, "reason") or None,
            asks=None,
            uuid=None,
            gpu=None,
            pci=None,
            pid=None,
            process=None,
            rank=None,
            victims=(Victim(event.namespace, about.name, about.uid),),
            cluster=event.cluster,
        )
        with_gpu = self._with_gpu.get(about.uid)
        if with_gpu:
            self._sink.event(told)
        elif with_gpu is None:
            waiting = self._waiting.setdefault(about.uid, {})
            waiting[event.uid] = told
            if len(waiting) > MOST_REASONS:
                del waiting[next(iter(waiting))]
            if len(self._waiting) > MOST_STRANGERS:
                del self._waiting[next(iter(self._waiting))]
