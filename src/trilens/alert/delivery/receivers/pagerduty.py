"""PagerDuty, by its Events API v2: one alert there for each incident."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from trilens.alert.delivery.notice import Occasion, decode
from trilens.alert.delivery.receivers.post import Poster, not_its_own, object_of
from trilens.alert.delivery.receivers.wording import few, followers, test_notice, when, where
from trilens.alert.go_time import stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.alert.delivery.notice import Notice
    from trilens.settings.receivers import PagerdutySettings

_SUMMARY: Final = 1_024  # what it takes, in characters
_SEVERITIES: Final = {"critical": "critical", "warning": "warning", "info": "info"}
_ACTIONS: Final = {Occasion.ACKNOWLEDGED: "acknowledge", Occasion.RESOLVED: "resolve"}


class PagerdutyChannel:
    def __init__(self, settings: PagerdutySettings) -> None:
        self._settings = settings
        self._poster = Poster(settings.timeout.total_seconds())

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._tell(decode(body))

    def test(self) -> None:
        """It pages, and is over at once."""
        notice = test_notice()
        self._tell(notice)
        self._tell(msgspec.structs.replace(notice, occasion=Occasion.RESOLVED, is_resolved=True))

    def close(self) -> None:
        self._poster.close()

    def _tell(self, notice: Notice) -> None:
        self._post(notice)
        if notice.is_acknowledged and notice.occasion is Occasion.OPENED:  # before it could be told here
            self._post(msgspec.structs.replace(notice, occasion=Occasion.ACKNOWLEDGED))

    def _post(self, notice: Notice) -> None:
        event = pagerduty_event(notice, self._settings.read_key())
        said = self._poster.post(self._settings.url, msgspec.json.encode(event))
        if object_of(said).get("status") != "success":
            raise not_its_own(said, "PagerDuty")


def pagerduty_event(notice: Notice, routing_key: str) -> dict[str, Any]:
    """What came and went while nobody could be reached is only resolved: nobody is woken for it."""
    event: dict[str, Any] = {
        "routing_key": routing_key,
        "event_action": _ACTIONS.get(notice.occasion, "trigger"),
        "dedup_key": notice.incident,
    }
    if event["event_action"] != "trigger":
        return event
    labels = notice.labels
    details = {
        "when": when(notice),
        "where": where(notice),
        "what is broken": notice.root.text if notice.root is not None else notice.title,
        "do now": notice.action,
        "lost so far": notice.lost,
        "suffers": few(notice.workloads),  # an event may have 512 KiB
        "what follows from it": followers(notice),
        "labels": labels,
    }
    known = {
        "summary": notice.title[:_SUMMARY] or notice.incident,
        "source": labels.get("workload") or labels.get("node") or labels.get("cluster") or "trilens",
        "severity": _SEVERITIES.get(notice.severity, "error"),
        "timestamp": stamp(notice.onset_ms),
        "component": labels.get("node") or labels.get("UUID"),
        "group": labels.get("team") or labels.get("namespace"),
        "class": labels.get("alertname") or labels.get("code"),
    }
    event["payload"] = {
        **{name: text for name, text in known.items() if text},
        "custom_details": {name: fact for name, fact in details.items() if fact},
    }
    event["client"] = "Trilens"
    if notice.url:
        event["client_url"] = notice.url
        event["links"] = [{"href": notice.url, "text": "The incident in Trilens"}]
    return event
