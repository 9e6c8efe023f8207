"""A webhook: what an Alertmanager posts (version 4), with the incident beside it."""

from __future__ import annotations

import hashlib
import hmac
import time
from typing import TYPE_CHECKING, Any

import msgspec

from trilens.alert.delivery.notice import decode
from trilens.alert.delivery.raw_alert import alert_key
from trilens.alert.delivery.receivers.post import Poster
from trilens.alert.delivery.receivers.wording import test_notice
from trilens.alert.go_time import stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.alert.delivery.notice import Notice, SymptomNote
    from trilens.settings.receivers import WebhookSettings


class WebhookChannel:
    def __init__(self, settings: WebhookSettings, receiver: str, link: str) -> None:
        self._settings = settings
        self._receiver = receiver
        self._link = link
        is_tls = settings.read_url().startswith("https://")
        self._poster = Poster(settings.timeout.total_seconds(), settings.tls() if is_tls else None)

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._tell(decode(body))

    def test(self) -> None:
        self._tell(test_notice())

    def close(self) -> None:
        self._poster.close()

    def _tell(self, notice: Notice) -> None:
        body = msgspec.json.encode(webhook_message(notice, self._receiver, self._link))
        headers = self._settings.request_headers()
        secret = self._settings.read_signing_secret()
        if secret is not None:
            headers["X-Trilens-Signature"] = signature(body, secret, int(time.time()))
        self._poster.post(self._settings.read_url(), body, headers)


def signature(body: bytes, secret: str, at_s: int) -> str:
    """`t=1700000000,v1=...`: over the time, too, so that an old post cannot be sent again by others."""
    digest = hmac.new(secret.encode(), f"{at_s}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at_s},v1={digest}"


def webhook_message(notice: Notice, receiver: str, link: str) -> dict[str, Any]:
    alerts = [_alert(symptom, notice) for symptom in notice.symptoms]
    return {
        "version": "4",
        "groupKey": f'{{}}:{{incident="{notice.incident}"}}',
        "truncatedAlerts": notice.more_symptoms,
        "status": _status(notice.is_resolved),
        "receiver": receiver,
        "groupLabels": {"incident": notice.incident},
        "commonLabels": _common([alert["labels"] for alert in alerts]),
        "commonAnnotations": _common([alert["annotations"] for alert in alerts]),
        "externalURL": link,
        "alerts": alerts,
        "trilens": {
            "incident": notice.incident,
            "occasion": notice.occasion,
            "severity": notice.severity,
            "title": notice.title,
            "action": notice.action,
            "labels": notice.labels,
            "workloads": notice.workloads,
            "onset_ms": notice.onset_ms,
            "detected_ms": notice.detected_ms,
            "resolved_ms": notice.resolved_ms,
            "acknowledged_by": notice.acknowledged_by,
            "merged_into": notice.merged_into,
            "lost_quanta": notice.lost_quanta,  # of 1e-9 of the currency
            "currency": notice.currency,
            "url": notice.url,
        },
    }


def _alert(symptom: SymptomNote, notice: Notice) -> dict[str, Any]:
    is_over = notice.is_resolved or symptom.ended_ms is not None
    ended_ms = symptom.ended_ms if symptom.ended_ms is not None else notice.resolved_ms
    labels = {"alertname": symptom.name, **symptom.labels, "severity": symptom.severity}
    return {
        "status": _status(is_over),
        "labels": labels,
        "annotations": {"summary": symptom.text, "action": symptom.action},
        "startsAt": stamp(symptom.onset_ms),
        "endsAt": stamp(ended_ms if is_over else None),
        "generatorURL": notice.url,
        "fingerprint": alert_key(labels)[:16],
    }


def _status(is_over: bool) -> str:
    return "resolved" if is_over else "firing"


def _common(sets: list[dict[str, str]]) -> dict[str, str]:
    if not sets:
        return {}
    return {name: value for name, value in sets[0].items() if all(one.get(name) == value for one in sets)}
