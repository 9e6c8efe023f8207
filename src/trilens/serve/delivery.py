"""Has incidents and alerts told to whom they concern: a thread for each receiver, and one that looks what
is due."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.alert.delivery.delivery import Delivery
from trilens.alert.delivery.outbox import Backlog, Outbox
from trilens.alert.delivery.sender import Sender
from trilens.alert.delivery.silences import Silences
from trilens.model.errors import ConfigError, DeliveryError, NotFound, StoreError
from trilens.serve.delivery_metrics import delivery_metrics
from trilens.serve.questions import clock_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from prometheus_client import Metric

    from trilens.alert.delivery.held_back import HeldBack
    from trilens.alert.delivery.mirror import Mirror
    from trilens.alert.delivery.outlet import Outlet
    from trilens.alert.delivery.plan import Plan
    from trilens.alert.delivery.sender import SenderState
    from trilens.model.alert import Alert
    from trilens.model.incident import Incident

    ToldListener = Callable[[str, str, int], None]

log = logging.getLogger(__name__)

FILE: Final = "notifications.sqlite"  # in the data directory
_LOOK_S: Final = 2.0
_REFRESH_LOOKS: Final = 30
_UPKEEP_LOOKS: Final = 1_800


class OutletReport(NamedTuple):
    outlet: Outlet
    state: SenderState
    backlog: Backlog
    dropped: int


class Tried(NamedTuple):
    """A test message, and what became of it."""

    where: str
    error: str | None


class DeliveryKeeper:
    """Everything public may be called from any thread."""

    def __init__(
        self,
        plan: Plan,
        file: Path,
        *,
        mirror: Mirror | None = None,
        may_tell: Callable[[], bool] = lambda: True,
        now_ms: Callable[[], int] = clock_ms,
        first_pause_s: float = 1.0,
    ) -> None:
        """`file` is made where it is not there; with a mirror there is none. `may_tell` is asked before each
        message. Raises StoreError."""
        self._outbox = Outbox(None, mirror) if mirror is not None else _outbox(plan, file)
        self._may_tell = may_tell
        self.silences = Silences(self._outbox)
        self._listeners: list[ToldListener] = []
        self._hearing = threading.Lock()
        self._unheard: list[tuple[str, str, int]] | None = []  # None since incidents are known
        self._open_incidents: Callable[[], Sequence[Incident]] | None = None
        self._now_ms = now_ms
        self._first_pause_s = first_pause_s
        self._delivery = Delivery(plan, self._outbox, self.silences, now_ms=now_ms, on_told=self._was_told)
        self._lock = threading.Lock()
        self._plan = plan
        self._senders = [self._sender(outlet) for outlet in plan.outlets]
        self._is_started = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trilens-delivery", daemon=True)

    def listen(self, listener: ToldListener) -> None:
        """Told that an incident (its id) was told to an outlet (its name), and when; before `start`."""
        self._listeners.append(listener)

    def ask(self, open_incidents: Callable[[], Sequence[Incident]]) -> None:
        """Whom to ask how they stand now, before they are told again; before `start`."""
        self._open_incidents = open_incidents

    def copy_to(self, file: Path) -> None:
        """What waits, what was told and silences, for a backup."""
        self._outbox.copy_to(file)

    def start(self) -> None:
        with self._lock:
            self._is_started = True
            for sender in self._senders:
                sender.start()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            _stop(self._senders)
        self._outbox.close()

    def take(self, incidents: Sequence[Incident]) -> None:
        """New ones and those that changed; after a start, all that are open."""
        if not incidents:
            return
        self._on_disk(lambda: self._delivery.take(incidents))
        with self._hearing:
            unheard, self._unheard = self._unheard, None
        for told in unheard or ():
            self._was_told(*told)

    def take_alerts(self, alerts: Sequence[Alert]) -> None:
        """For Alertmanagers: those that fire or have just resolved, and again every minute."""
        self._on_disk(lambda: self._delivery.take_alerts(alerts))

    def silenced(self) -> None:
        """A silence was made, or ended."""
        self._on_disk(self._delivery.look)

    def held_back(self) -> dict[str, tuple[HeldBack, ...]]:
        """Why nobody, or not everybody, is told of an open incident now, by its id."""
        return self._delivery.held_back()

    def configure(self, plan: Plan) -> None:
        """Receivers that did not change go on."""
        with self._lock:
            kept = {sender.outlet.name: sender for sender in self._senders if sender.outlet in plan.outlets}
            _stop([sender for sender in self._senders if sender.outlet.name not in kept])
            self._plan = plan
            self._on_disk(lambda: self._delivery.configure(plan))
            self._senders = [kept.get(outlet.name) or self._sender(outlet) for outlet in plan.outlets]
            if self._is_started:
                for sender in self._senders:
                    if sender.outlet.name not in kept:
                        sender.start()

    def reports(self) -> list[OutletReport]:
        """Raises StoreError."""
        backlogs, nothing = self._outbox.backlogs(), Backlog(0, 0)
        with self._lock:
            senders = list(self._senders)
        return [
            OutletReport(
                sender.outlet,
                sender.state,
                backlogs.get(sender.outlet.name, nothing),
                self._delivery.dropped[sender.outlet.name],
            )
            for sender in senders
        ]

    def test(self, receiver: str) -> list[Tried]:
        """Sends a message there, past the queue. Raises NotFound."""
        outlets = [outlet for outlet in self._plan.outlets if outlet.receiver == receiver]
        if not outlets:
            known = ", ".join(dict.fromkeys(outlet.receiver for outlet in self._plan.outlets)) or "none"
            raise NotFound(f"there is no receiver {receiver!r} (there are: {known})")
        return [Tried(outlet.where, _try(outlet)) for outlet in outlets]

    def metrics(self) -> Iterator[Metric]:
        return delivery_metrics(self, self._now_ms())

    def _sender(self, outlet: Outlet) -> Sender:
        return Sender(
            outlet,
            self._outbox,
            self._delivery,
            may_send=self._may_tell,
            first_pause_s=self._first_pause_s,
            now_ms=self._now_ms,
        )

    def _was_told(self, incident: str, receiver: str, at_ms: int) -> None:
        """In a sender's thread. After a start, what waits is sent before anybody knows of incidents."""
        with self._hearing:
            if self._unheard is not None:
                self._unheard.append((incident, receiver, at_ms))
                return
        for listener in self._listeners:
            try:
                listener(incident, receiver, at_ms)
            except Exception:  # a defect of one who listens must not have it sent again
                log.exception("that an incident was told could not be told on")

    def _on_disk(self, decide: Callable[[], None]) -> None:
        try:
            decide()
        except StoreError as e:  # incidents are decided on again at the next look, alerts told again
            log.error("notifications are not on disk yet", extra={"error": str(e)})
        for sender in self._senders:
            sender.wake()

    def _run(self) -> None:
        looks = 0
        while not self._stopping.wait(_LOOK_S):
            try:
                if looks % _REFRESH_LOOKS == 0 and self._open_incidents is not None:
                    self._delivery.refresh(self._open_incidents())
                self._on_disk(self._delivery.look)
                if looks % _UPKEEP_LOOKS == 0:
                    self._delivery.upkeep()
            except Exception:  # a defect here must not end it for good
                log.exception("looking for what is to be told failed")
            looks += 1


def _outbox(plan: Plan, file: Path) -> Outbox:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return Outbox(file)
    except (OSError, StoreError) as e:
        if plan.outlets:
            hint = "set storage.data_dir to a directory that can be written, and that no other server uses"
            raise StoreError(f"cannot keep what is to be told in {file}: {e}", hint=hint) from e
        log.warning("silences will not outlive this process", extra={"file": str(file), "error": str(e)})
        return Outbox(None)


def _stop(senders: Sequence[Sender]) -> None:
    for sender in senders:
        sender.stop()
    for sender in senders:
        sender.join()


def _try(outlet: Outlet) -> str | None:
    try:
        channel = outlet.open()
        try:
            channel.test()
        finally:
            channel.close()
    except (DeliveryError, ConfigError) as e:
        return e.message
    return None
