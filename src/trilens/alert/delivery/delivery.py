"""Decides who is told what, and when; what is to be told is on disk before anything else happens."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import msgspec

from trilens.alert.delivery.held_back import HeldBack, Hold
from trilens.alert.delivery.known import (
    Known,
    asked_anew,
    end_again_ms,
    having_heard,
    having_refused,
    lost_sight_of,
    occasion_of,
)
from trilens.alert.delivery.muting import Muting
from trilens.alert.delivery.notice import Notice, Occasion, decode, encode, notice_of
from trilens.alert.delivery.outbox import Told, Waiting
from trilens.alert.delivery.raw_alert import alert_body, alert_key
from trilens.alert.delivery.routes import receivers_of
from trilens.model.incident import IncidentState

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

    from trilens.alert.delivery.outbox import Outbox
    from trilens.alert.delivery.outlet import Outlet
    from trilens.alert.delivery.plan import Plan
    from trilens.alert.delivery.routes import Timing
    from trilens.alert.delivery.silences import Silences
    from trilens.model.alert import Alert
    from trilens.model.incident import Incident

_Place: TypeAlias = tuple[str, str]  # an outlet and an incident

_CLAIMED_MS: Final = 10 * 60_000  # by then, whoever keeps incidents has told of all that are open
_FORGOTTEN_MS: Final = 30 * 86_400_000  # an incident that nobody spoke of for so long


class _Open(NamedTuple):
    """An open incident, and what follows from it: worked out once, looked at every two seconds."""

    incident: Incident
    notice: Notice  # as of one that opens
    receivers: dict[str, Timing]


class Delivery:
    """Thread-safe."""

    def __init__(
        self,
        plan: Plan,
        outbox: Outbox,
        silences: Silences,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        on_told: Callable[[str, str, int], None] | None = None,
    ) -> None:
        """`on_told` gets an incident's id, the outlet's name and the moment, once a message was taken."""
        self.dropped: Counter[str] = Counter()  # messages, by outlet, for want of room
        self._plan = plan
        self._outbox = outbox
        self._silences = silences
        self._now_ms = now_ms
        self._on_told = on_told
        self._lock = threading.RLock()
        self._open: dict[str, _Open] = {}
        self._over: dict[str, Incident] = {}  # those of which that is not on disk yet
        self._put_last: dict[_Place, tuple[Occasion, Incident]] = {}  # of what waits, if put since the start
        self._known = {
            (one.outlet, one.key): msgspec.json.decode(one.about, type=Known) for one in outbox.told()
        }
        self._ask_anew()
        outbox.keep_outlets({outlet.name for outlet in plan.outlets})
        waiting = self._waiting()
        self._began_ms = now_ms()
        ending = {key for (_, key), message in waiting.items() if message.is_over}
        # Until somebody tells of them again.
        self._unclaimed = {key for _, key in (*self._known, *waiting)} - ending

    def configure(self, plan: Plan) -> None:
        """Other receivers and routes. What was refused is tried again: the reason may have been put right.
        Raises StoreError, and `look` tries again."""
        with self._lock:
            self._plan = plan
            names = {outlet.name for outlet in plan.outlets}
            self._known = {place: one for place, one in self._known.items() if place[0] in names}
            self._open = {id: self._opened(one.incident) for id, one in self._open.items()}
            self._outbox.keep_outlets(names)
            self._ask_anew()
            self.look()

    def take(self, incidents: Sequence[Incident]) -> None:
        """New ones and those that changed; after a start, all that are open. On disk when it returns; raises
        StoreError, and `look` tries again."""
        with self._lock:
            self._unclaimed.difference_update(incident.id for incident in incidents)
            for incident in incidents:
                if incident.state is IncidentState.OPEN:
                    self._open[incident.id] = self._opened(incident)
                    self._over.pop(incident.id, None)
                else:
                    self._open.pop(incident.id, None)
                    self._over[incident.id] = incident
            self._decide({incident.id for incident in incidents})

    def take_alerts(self, alerts: Sequence[Alert]) -> None:
        """Those that fire or have just resolved, told again every minute. On disk when it returns."""
        outlets = [outlet.name for outlet in self._plan.outlets if outlet.takes_alerts]
        if not outlets or not alerts:
            return
        now_ms = self._now_ms()
        external = dict(self._plan.external_labels)
        messages = []
        for alert in alerts:
            labels = {**external, **dict(alert.labels)}
            key, body = alert_key(labels), alert_body(alert, labels)
            is_over = alert.resolved_ms is not None
            messages += [Waiting(outlet, key, body, is_over, now_ms, now_ms) for outlet in outlets]
        self._put(messages)

    def refresh(self, incidents: Sequence[Incident]) -> None:
        """Open ones as they are now, for what is said again of them: the money that is lost grows."""
        with self._lock:
            for incident in incidents:
                if incident.id in self._open:  # else it is over by now
                    self._open[incident.id] = self._opened(incident)

    def look(self) -> None:
        """Repeats, and what is not silenced or inhibited any more. To be called every few seconds."""
        with self._lock:
            self._decide(self._open)
            if self._unclaimed and self._now_ms() > self._began_ms + _CLAIMED_MS:
                self._put(list(self._of_unclaimed()))
                # Whoever has yet to hear that one opened is told of its end after that.
                self._unclaimed &= {key for (_, key), one in self._waiting().items() if not one.is_over}

    def held_back(self) -> dict[str, tuple[HeldBack, ...]]:
        """Why nobody, or not everybody, is told of an open incident now, by its id."""
        with self._lock:
            now_ms = self._now_ms()
            muting = self._muting(now_ms)
            has_receivers = any(not outlet.takes_alerts for outlet in self._plan.outlets)
            found = {
                id: muting.reasons(one.notice) or _unheard_of(one, now_ms, has_receivers=has_receivers)
                for id, one in self._open.items()
            }
        return {id: reasons for id, reasons in found.items() if reasons}

    def settle(self, outlet: Outlet, messages: Sequence[Waiting], *, is_refused: bool) -> None:
        """They were sent, or will never be."""
        if outlet.takes_alerts:
            self._outbox.done(messages)
            return
        now_ms = self._now_ms()
        with self._lock:
            heard: dict[str, Known] = {}
            again: list[Waiting] = []
            for message in messages:
                before = self._known.get((outlet.name, message.key))
                pause_ms = end_again_ms(before) if message.is_over and is_refused else None
                if pause_ms is not None:
                    again.append(replace(message, due_ms=now_ms + pause_ms))
                if is_refused and (pause_ms is not None or not message.is_over):
                    heard[message.key] = having_refused(before, now_ms)  # it may not even be readable
                elif not message.is_over:
                    heard[message.key] = having_heard(before, decode(message.body), now_ms)
            self._note(outlet.name, messages, heard)
            self._decide_again(outlet.name, heard)
            self._put([one for one in again if one.key not in self._open])
        if self._on_told is not None and not is_refused:
            for message in messages:
                self._on_told(message.key, outlet.name, now_ms)

    def _note(self, outlet: str, messages: Sequence[Waiting], heard: Mapping[str, Known]) -> None:
        over = [message.key for message in messages if message.key not in heard]
        told = [Told(outlet, key, msgspec.json.encode(one)) for key, one in heard.items()]
        self._outbox.done(messages, told, over)
        for key in over:
            self._known.pop((outlet, key), None)
        self._known.update(((outlet, key), one) for key, one in heard.items())

    def upkeep(self) -> None:
        """Forget what will never be told of again. Once in a while."""
        before_ms = self._now_ms() - _FORGOTTEN_MS
        with self._lock:
            old = [
                place
                for place, known in self._known.items()
                if known.told_ms < before_ms and place[1] not in self._open
            ]
            self._outbox.forget(old)
            for place in old:
                del self._known[place]

    def _ask_anew(self) -> None:
        """Those who refused: what was in the way may have been put right."""
        anew = {place: asked_anew(one) for place, one in self._known.items()}
        self._known = {place: one for place, one in anew.items() if one is not None}
        self._outbox.forget([place for place, one in anew.items() if one is None])

    def _decide_again(self, outlet: str, heard: Mapping[str, Known]) -> None:
        """What was put while it was sent was for one who knew less."""
        waiting = {key: one for (_, key), one in self._outbox.waiting([outlet]).items()}
        renewed = {key for key in heard if key in waiting and not waiting[key].is_over}
        for key in renewed:
            self._outbox.withdraw(outlet, key)
        if renewed:
            self._decide(renewed)

    def _put(self, messages: Sequence[Waiting]) -> None:
        if messages:
            self.dropped.update(self._outbox.put(messages, self._plan.max_waiting))

    def _waiting(self) -> dict[_Place, Waiting]:
        waiting = self._outbox.waiting([one.name for one in self._plan.outlets if not one.takes_alerts])
        self._put_last = {place: put for place, put in self._put_last.items() if place in waiting}
        return waiting

    def _decide(self, wanted: Container[str]) -> None:
        if not self._open and not self._over:
            return
        waiting = self._waiting()
        messages = [one for incident in self._over.values() for one in self._of_resolved(incident, waiting)]
        self._put([*messages, *self._of_open(wanted, waiting)])
        self._over.clear()

    def _of_resolved(self, incident: Incident, waiting: Mapping[_Place, Waiting]) -> Iterator[Waiting]:
        """To all that know of it, or would by now if they could be reached."""
        now_ms = self._now_ms()
        body = encode(notice_of(incident, Occasion.RESOLVED, self._link(incident)))
        for outlet in self._plan.outlets:
            place = (outlet.name, incident.id)
            if place in self._known or (place in waiting and _is_late(waiting[place], now_ms)):
                yield Waiting(outlet.name, incident.id, body, True, now_ms, now_ms)
            elif place in waiting:  # over before it was to be told
                self._outbox.withdraw(*place)

    def _of_unclaimed(self) -> Iterator[Waiting]:
        """The disk was full when it opened, or what was kept is gone."""
        now_ms = self._now_ms()
        for (outlet, key), known in self._known.items():
            if key in self._unclaimed:
                yield Waiting(outlet, key, encode(lost_sight_of(key, known, now_ms)), True, now_ms, now_ms)

    def _of_open(self, wanted: Container[str], waiting: Mapping[_Place, Waiting]) -> Iterator[Waiting]:
        now_ms = self._now_ms()
        muting = self._muting(now_ms)
        for id, one in self._open.items():
            if id not in wanted:
                continue
            is_muted = bool(muting.reasons(one.notice))
            for outlet in self._plan.outlets:
                timing = one.receivers.get(outlet.receiver)
                waits = waiting.get((outlet.name, id))
                if timing is not None and not is_muted and not timing.is_quiet(now_ms):
                    yield from self._message(outlet.name, one, timing, waits, now_ms)
                elif waits is not None and not waits.is_over:  # one who knows is told when it is over
                    self._take_back(waits, now_ms)

    def _muting(self, now_ms: int) -> Muting:
        return Muting(
            self._silences.active(now_ms),
            self._plan.inhibitions,
            (one.notice for one in self._open.values()),
        )

    def _message(
        self, outlet: str, one: _Open, timing: Timing, waits: Waiting | None, now_ms: int
    ) -> Iterator[Waiting]:
        """What an open incident is to be told as, if at all."""
        place = (outlet, one.incident.id)
        if waits is not None and waits.is_over:  # it opened again, before anybody knew that it was over
            self._outbox.withdraw(*place)
            waits = None
        occasion, due_ms = occasion_of(self._known.get(place), one.notice, timing, now_ms)
        if occasion is None:
            return
        put = (occasion, one.incident)
        if waits is not None and waits.due_ms <= due_ms and self._put_last.get(place) == put:
            return
        self._put_last[place] = put
        body = encode(msgspec.structs.replace(one.notice, occasion=occasion))
        yield Waiting(outlet, one.incident.id, body, False, now_ms, due_ms)

    def _take_back(self, message: Waiting, now_ms: int) -> None:
        """One that is late may be on its way, or have arrived and not been noted: then its end must, too."""
        place = (message.outlet, message.key)
        unsure = Known(now_ms, has_taken=False)
        if _is_late(message, now_ms) and self._known.setdefault(place, unsure) is unsure:
            self._outbox.withdraw(*place, Told(*place, msgspec.json.encode(unsure)))
        else:
            self._outbox.withdraw(*place)

    def _opened(self, incident: Incident) -> _Open:
        known = self._open.get(incident.id)
        if known is not None and known.incident == incident and known.notice.url == self._link(incident):
            notice = known.notice
        else:
            notice = notice_of(incident, Occasion.OPENED, self._link(incident))
        labels = [symptom.labels for symptom in notice.symptoms]
        return _Open(incident, notice, receivers_of(self._plan.routes, labels))

    def _link(self, incident: Incident) -> str:
        return f"{self._plan.link}/api/incidents/{incident.id}"


def _unheard_of(one: _Open, now_ms: int, *, has_receivers: bool) -> tuple[HeldBack, ...]:
    if not has_receivers:
        return (HeldBack(Hold.NO_RECEIVER, "", "no receivers of incidents are set (alerting.receivers)"),)
    if not one.receivers:
        return (HeldBack(Hold.NO_ROUTE, "", "no route leads to a receiver (alerting.routes)"),)
    return tuple(
        HeldBack(Hold.QUIET, receiver, "told afterwards, if it still lasts")
        for receiver, timing in one.receivers.items()
        if timing.is_quiet(now_ms)
    )


def _is_late(message: Waiting, now_ms: int) -> bool:
    """It would have been told by now, if the receiver could be reached, or took it."""
    return message.is_over or message.due_ms <= now_ms
