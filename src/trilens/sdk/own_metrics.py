"""What the SDK tells about itself, worked out when somebody asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trilens.sdk.outbox import Outbox
    from trilens.sdk.recorder import Recorder

OWN_METRICS: Final = {
    "trilens_sdk_info": "1; the run that this process is a rank of.",
    "trilens_sdk_lost_total": "What the SDK could not keep, by kind.",
    "trilens_sdk_waiting_bytes": "Records that the server has not taken yet.",
    "trilens_sdk_memory_bytes": "Of these, those that no disk has.",
    "trilens_sdk_server_up": "1 when the server answered the last request, else 0.",
}


def show_own_metrics(recorder: Recorder, outbox: Outbox | None) -> None:
    """Has them worked out at each scrape."""

    def refresh() -> None:
        metrics = recorder.metrics
        _gauge(recorder, "trilens_sdk_info", 1, {"run": recorder.run_id})
        for kind, count in recorder.guard.counts().items():
            name = "trilens_sdk_lost_total"
            metrics.counter_at(name, OWN_METRICS[name], count, {"kind": kind})
        if outbox is None:
            return
        standing = outbox.standing()
        _gauge(recorder, "trilens_sdk_waiting_bytes", standing.waiting_bytes)
        _gauge(recorder, "trilens_sdk_memory_bytes", standing.memory_bytes)
        if standing.is_reached is not None:
            _gauge(recorder, "trilens_sdk_server_up", int(standing.is_reached))

    recorder.metrics.before_scrape(refresh)


def _gauge(recorder: Recorder, name: str, value: float, labels: dict[str, str] | None = None) -> None:
    recorder.metrics.gauge(name, OWN_METRICS[name], value, labels)
