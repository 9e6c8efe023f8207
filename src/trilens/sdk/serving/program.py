"""What a process that serves has of the SDK: its figures, the port that shows them, and who is told of it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from trilens.sdk.exposition import MetricsPort
from trilens.sdk.guard import Guard
from trilens.sdk.metrics import write_labels
from trilens.sdk.options import read_options
from trilens.sdk.serving.figures import Figures
from trilens.sdk.serving.queues import Queues
from trilens.sdk.serving.registration import Registration
from trilens.sdk.serving.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.sdk.options import Options
    from trilens.sdk.serving.figures import ModelFigures
    from trilens.sdk.serving.queues import Queue

DEFAULT_PORT: Final = 9450  # of the first worker; the others of a machine take the next free ones
_LONGEST_NAME: Final = 200


class ServingProgram:
    """Any thread."""

    def __init__(self) -> None:
        self._begin_anew()
        self.queues = Queues(self.guard)

    def _begin_anew(self) -> None:
        self.guard = Guard()
        self.figures = Figures()
        self.needs_port = True  # until it has one, or its figures are shown elsewhere
        self._port: MetricsPort | None = None
        self._registration: Registration | None = None
        self._lock = threading.Lock()

    def begin(self, model: object = "", version: object = "") -> Request:
        if self.needs_port:
            self.guard.run("metrics port", self.listen)
        return Request(self, model, version)

    def figures_of(self, model: object, version: object) -> ModelFigures:
        # Nearly always both are text already.
        return self.figures.of(
            model if isinstance(model, str) and len(model) <= _LONGEST_NAME else _name(model),
            version if isinstance(version, str) and len(version) <= _LONGEST_NAME else _name(version),
        )

    def queue(self, watched: object, name: object, model: object, version: object) -> Queue:
        labels = (("queue", _name(name)), ("model", _name(model)), ("version", _name(version)))
        return self.queues.add(watched, tuple((label, value) for label, value in labels if value))

    def listen(self) -> str | None:
        """host:port of this process's /metrics, from the first call on; None where it has none.

        Not opened before it is asked for: workers that are forked of this process must each have their own.
        """
        with self._lock:
            self.needs_port = False
            if self._port is None:
                options = read_options(self.guard)
                if not (options.enabled and options.metrics):
                    return None
                self._port = MetricsPort(self.text, *_place(options), self.guard)
                if self._port.address is not None:
                    self.guard.say("port", f"metrics of this server on http://{self._port.address}/metrics")
                    self._registration = self.guard.run(
                        "registration", Registration, self._port.address, options, self.guard
                    )
            return self._port.address

    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    def abandon(self) -> None:
        """In a forked child: the port and the counts are the parent's."""
        port = self._port
        self._begin_anew()
        self.queues.begin_anew(self.guard)
        if port is not None:
            port.abandon()

    def close(self) -> None:
        with self._lock:
            port, self._port = self._port, None
            registration, self._registration = self._registration, None
        if registration is not None:
            registration.close()
        if port is not None:
            port.close()

    def _lines(self) -> Iterator[str]:
        yield from self.figures.lines()
        yield from self.queues.lines()
        if self.figures.models_put_together:
            yield "# HELP trilens_sdk_models_put_together_total Requests told as of the model other."
            yield "# TYPE trilens_sdk_models_put_together_total counter"
            yield f"trilens_sdk_models_put_together_total {self.figures.models_put_together}"
        lost = self.guard.counts()
        if lost:
            yield "# HELP trilens_sdk_lost_total What could not be kept."
            yield "# TYPE trilens_sdk_lost_total counter"
            for kind, count in lost.items():
                yield f"trilens_sdk_lost_total{write_labels((('kind', kind),))} {count}"


PROGRAM: Final = ServingProgram()
os.register_at_fork(after_in_child=PROGRAM.abandon)


def _name(value: object) -> str:
    if value is None:
        return ""
    try:
        return str(value)[:_LONGEST_NAME]
    except Exception:  # noqa: BLE001 - whatever a program may hand over
        return "unknown"


def _place(options: Options) -> tuple[str, int]:
    host, _, port = (options.metrics_listen or "").rpartition(":")
    if not host:  # in a pod, whoever scrapes is outside it
        host = "" if "KUBERNETES_SERVICE_HOST" in options.environ else "127.0.0.1"
    return host.strip("[]"), int(port) if port else DEFAULT_PORT
