"""Sends what is due for one outlet, in a thread of its own: one that is away delays nobody else."""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.model.errors import ConfigError, NotificationRefused, ReceiverAway, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.alert.delivery.delivery import Delivery
    from trilens.alert.delivery.outbox import Outbox, Waiting
    from trilens.alert.delivery.outlet import Channel, Outlet

log = logging.getLogger(__name__)

_LONGEST_PAUSE_S: Final = 60.0
_LONGEST_ASKED_S: Final = 3_600.0  # that a receiver may ask to be left alone
_LONGEST_SLEEP_S: Final = 5.0  # clocks are set, and nobody tells
_STOP_S: Final = 2.0  # what was sent and not noted is sent again after a start


@dataclass(slots=True)
class SenderState:
    """Since the start; written by the sender alone."""

    sent: int = 0  # messages
    failed: int = 0  # tries
    refused: int = 0  # messages, for good
    last_ok_ms: int | None = None
    last_error_ms: int | None = None
    last_error: str | None = None
    is_well: bool = True  # the last try went well
    again_ms: int | None = None  # not before then, while it is away


class Sender:
    def __init__(
        self,
        outlet: Outlet,
        outbox: Outbox,
        delivery: Delivery,
        *,
        may_send: Callable[[], bool] = lambda: True,
        first_pause_s: float = 1.0,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.outlet = outlet
        self._may_send = may_send
        self.state = SenderState()
        self._outbox = outbox
        self._delivery = delivery
        self._first_pause_s = first_pause_s
        self._now_ms = now_ms
        self._failures = 0  # in a row
        self._unsettled: tuple[Sequence[Waiting], bool] | None = None  # sent or refused, and not noted
        self._channel: Channel | None = None
        self._changed = threading.Condition()
        self._is_woken = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"notify-{outlet.receiver}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """There may be something to send."""
        with self._changed:
            self._is_woken = True
            self._changed.notify()

    def stop(self) -> None:
        """Nothing more is sent; `join` waits for what is being sent."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def join(self) -> None:
        """One that is being sent to gets a moment to answer."""
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def send_due(self) -> float:
        """All that is due, in the thread that calls; for how many seconds there is nothing more to do."""
        while not self._stopping:
            if not self._may_send():  # another server does by now
                return _LONGEST_SLEEP_S
            self._settle()
            messages = self._outbox.due(self.outlet.name, self._now_ms(), self.outlet.most)
            if not messages:
                due_ms = self._outbox.next_due_ms(self.outlet.name)
                sleep_s = _LONGEST_SLEEP_S if due_ms is None else max(due_ms - self._now_ms(), 0) / 1000
                return min(sleep_s, _LONGEST_SLEEP_S)
            pause_s = self._send(messages)
            if pause_s is not None:
                self.state.again_ms = self._now_ms() + round(pause_s * 1000)
                return pause_s
            self.state.again_ms = None
        return 0.0

    def _send(self, messages: Sequence[Waiting]) -> float | None:
        """None when they are settled, else for how long to leave it alone."""
        is_refused = False
        try:
            if self._channel is None:
                self._channel = self.outlet.open()
            self._channel.send([message.body for message in messages])
        except (ReceiverAway, ConfigError) as e:
            return self._is_away(e)
        except NotificationRefused as e:
            is_refused = True
            self._failed(e.message)
            self.state.refused += len(messages)
        except Exception as e:  # a message that breaks us must not keep the others from being sent
            log.exception(
                "a notification failed, which is a defect", extra={"receiver": self.outlet.receiver}
            )
            is_refused = True
            self._failed(f"a defect: {e!r}")
            self.state.refused += len(messages)
        else:
            if not self.state.is_well:
                log.info("notifications are taken again", extra=self._named())
            self.state.is_well = True
            self.state.last_ok_ms = self._now_ms()
            self.state.sent += len(messages)
        self._failures = 0
        self._unsettled = (messages, is_refused)
        self._settle()
        return None

    def _settle(self) -> None:
        """Before anything else is sent: a disk that is full must not have the same sent every few seconds."""
        if self._unsettled is not None:
            messages, is_refused = self._unsettled
            self._delivery.settle(self.outlet, messages, is_refused=is_refused)
            self._unsettled = None

    def _is_away(self, error: ReceiverAway | ConfigError) -> float:
        self._failed(error.message)
        self._close()
        self._failures += 1
        asked_s = (error.wait_s if isinstance(error, ReceiverAway) else None) or 0.0
        pause_s: float = min(self._first_pause_s * 2 ** min(self._failures - 1, 10), _LONGEST_PAUSE_S)
        pause_s *= random.uniform(0.75, 1.25)  # noqa: S311 - so that not all come back at once
        return max(pause_s, min(asked_s, _LONGEST_ASKED_S))

    def _failed(self, reason: str) -> None:
        if self.state.is_well:
            log.warning("notifications are not taken", extra={**self._named(), "error": reason})
        self.state.is_well = False
        self.state.failed += 1
        self.state.last_error = reason
        self.state.last_error_ms = self._now_ms()

    def _named(self) -> dict[str, str]:
        return {"receiver": self.outlet.receiver, "where": self.outlet.where}

    def _close(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _run(self) -> None:
        while True:
            try:
                sleep_s = self.send_due()
            except StoreError as e:
                log.error("the queue of notifications fails", extra={**self._named(), "error": str(e)})
                sleep_s = _LONGEST_SLEEP_S
            except Exception:  # nobody would notice that one receiver hears nothing any more
                log.exception("notifications failed, which is a defect", extra=self._named())
                sleep_s = _LONGEST_SLEEP_S
            until = time.monotonic() + sleep_s
            with self._changed:
                # What is new does not hurry one that is away: it is left alone until then.
                while not self._stopping and (left := until - time.monotonic()) > 0:
                    if self._is_woken and self.state.again_ms is None:
                        break
                    self._changed.wait(left)
                self._is_woken = False
                if self._stopping:
                    break
        self._close()
