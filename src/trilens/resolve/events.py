"""Kubernetes events, kept by what they are about: the latest of each reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.model.kubernetes import GroupKind
from trilens.resolve.reading import section, text, time_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.kubernetes import KubeObject

EVENT_KINDS = (GroupKind("", "Event"), GroupKind("events.k8s.io", "Event"))

MOST_STRANGERS = 10_000  # objects that only events tell of: not seen yet, or gone
MOST_REASONS = 64  # of one object; controllers know a dozen


class Noted(NamedTuple):
    at_ms: int
    message: str


class EventLog:
    """An event is kept as long as what it is about: that the API server forgets it undoes nothing."""

    def __init__(self) -> None:
        self._by_object: dict[str, dict[str, Noted]] = {}
        self._strangers: dict[str, None] = {}  # in the order in which they were first heard of

    def note(self, about: str, event: KubeObject, *, is_known: bool) -> None:
        """`about` is a uid; `is_known`: what has it is there."""
        reason = text(event.body, "reason")
        if not about or not reason:
            return
        if about not in self._by_object and not is_known:
            self._strangers[about] = None
            if len(self._strangers) > MOST_STRANGERS:
                self.forget(next(iter(self._strangers)))
        reasons = self._by_object.setdefault(about, {})
        noted = Noted(happened_ms(event), text(event.body, "message") or text(event.body, "note"))
        if reason not in reasons or reasons[reason].at_ms <= noted.at_ms:
            reasons.pop(reason, None)
            reasons[reason] = noted
        if len(reasons) > MOST_REASONS:
            del reasons[min(reasons, key=lambda one: reasons[one].at_ms)]

    def met(self, uid: str) -> None:
        """It has come."""
        self._strangers.pop(uid, None)

    def forget(self, uid: str) -> None:
        """It has gone."""
        self._strangers.pop(uid, None)
        self._by_object.pop(uid, None)

    def about(self, uid: str) -> Mapping[str, Noted]:
        return self._by_object.get(uid, {})


class About(NamedTuple):
    """What an event is about, "" where it does not say. Of a node many write its name as its uid."""

    kind: str
    name: str
    uid: str


def about_whom(event: KubeObject) -> About:
    who = section(event.body, "involvedObject") or section(event.body, "regarding")
    return About(text(who, "kind"), text(who, "name"), text(who, "uid"))


def happened_ms(event: KubeObject) -> int:
    """When it last happened. Each version of the API keeps that elsewhere."""
    body = event.body
    times = (
        time_ms(section(body, "series").get("lastObservedTime")),
        time_ms(body.get("lastTimestamp")),
        time_ms(body.get("deprecatedLastTimestamp")),
        time_ms(body.get("eventTime")),
        time_ms(body.get("firstTimestamp")),
    )
    return next((at for at in times if at is not None), event.created_ms)
