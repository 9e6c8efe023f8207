"""How a show of faults goes: when each began and was over, when its alert fired, arrived and was resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from trilens.cli.demo_stage import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from trilens.cli.demo_stage import ShownFault

    Labels = Mapping[str, str]

_PATIENCE: Final = 2.0  # times as long as it should take
_PATIENCE_S: Final = 60.0
_RESTART_S: Final = 10


class Surroundings(Protocol):
    """What is seen of the simulator, the server and the Alertmanagers."""

    def watched_s(self) -> float:
        """For how long the server has known every GPU, and who has it."""

    def strike(self, fault: Mapping[str, Any]) -> dict[str, Any] | None:
        """The truth about it; None where it has found nothing to strike."""

    def mend(self, number: int) -> None:
        """End the fault of this number."""

    def faults(self) -> Sequence[dict[str, Any]]:
        """The truth about all of them, by their numbers."""

    def firing(self) -> Sequence[dict[str, Any]]:
        """Alerts of the server."""

    def arrived(self) -> Sequence[dict[str, Any]] | None:
        """Alerts that Alertmanagers hold; None where none was asked or none answers."""


@dataclass
class Act:
    """One fault. Times are seconds since the epoch."""

    fault: ShownFault
    truth: dict[str, Any] = field(default_factory=dict)
    began_s: float | None = None
    over_s: float | None = None
    fired_s: float | None = None
    arrived_s: float | None = None
    resolved_s: float | None = None
    labels: Labels = field(default_factory=dict)
    summary: str = ""
    is_restarted: bool = False
    gave_up: bool = False

    @property
    def is_done(self) -> bool:
        return self.resolved_s is not None or self.gave_up

    @property
    def wrong(self) -> dict[str, str]:
        """Of what the alert should name, that which it does not, and how it should read."""
        should = {name: str(self.truth.get(_TRUTHS.get(name, name), "")) for name in self.fault.names}
        return {name: value for name, value in should.items() if self.labels.get(name) != value}

    @property
    def is_shown(self) -> bool:
        return self.resolved_s is not None and not self.wrong

    @property
    def asks(self) -> str:
        """What tells why, in the words of the command line."""
        name = self.truth.get("workload") or f"{self.fault.job}-1"
        return f"why {self.truth.get('namespace') or NAMESPACE}/{name}"

    def is_meant_by(self, alert: Mapping[str, Any]) -> bool:
        labels = alert["labels"]
        if labels.get("alertname") != self.fault.alert:
            return False
        workload, node = labels.get("workload"), labels.get("node")
        return workload == f"{self.fault.job}-1" or (node or "").rpartition("-")[0] == self.fault.job


_TRUTHS: Final = {"UUID": "gpu_uuid"}  # where the simulator has another word for a label


class Show:
    def __init__(
        self, faults: Sequence[ShownFault], strikes: Callable[[ShownFault], Mapping[str, Any]],
        around: Surroundings, *, has_alertmanager: bool, to_type: Callable[[str], str],
    ) -> None:  # fmt: skip
        self.acts = [Act(fault) for fault in faults]
        self.has_alertmanager = has_alertmanager
        self._strikes = strikes
        self._around = around
        self._to_type = to_type

    @property
    def is_over(self) -> bool:
        return all(act.is_done for act in self.acts)

    def look(self, now_s: float) -> Iterator[tuple[Act, str]]:
        """What has happened since the last look, in words."""
        waiting = [act for act in self.acts if act.began_s is None]
        watched_s = self._around.watched_s() if waiting else 0.0
        for act in waiting:
            if watched_s >= act.fault.after_s:
                yield from self._begin(act, now_s)
        on_stage = [act for act in self.acts if act.began_s is not None and not act.is_done]
        if not on_stage:
            return
        truths = self._around.faults()
        firing = self._around.firing()
        arrived = self._around.arrived() if self.has_alertmanager else ()
        for act in on_stage:
            yield from self._over(act, truths[act.truth["number"]], now_s)
            yield from self._told(act, firing, arrived, now_s)

    def _begin(self, act: Act, now_s: float) -> Iterator[tuple[Act, str]]:
        truth = self._around.strike(self._strikes(act.fault))
        if truth is None:
            return  # its job restarts, or has not come up: the next look finds it
        act.truth, act.began_s = truth, now_s
        where = [truth["node"]] if truth["node"] else []
        if "workload" in truth:
            where.append(f"{truth['namespace']}/{truth['workload']}")
        if truth["rank"] is not None:
            where.append(f"rank {truth['rank']}")
        yield act, f"begins: {act.fault.what} ({', '.join(where)})"

    def _over(self, act: Act, truth: dict[str, Any], now_s: float) -> Iterator[tuple[Act, str]]:
        assert act.began_s is not None
        fault, lasted_s = act.fault, now_s - act.began_s
        if truth["to_ms"] is not None:
            if act.over_s is None:
                act.over_s = now_s
                if fault.lasts_s:
                    yield act, "is over" + (": the job was restarted" if fault.ends_by_restart else "")
        elif lasted_s >= (fault.lasts_s if self._is_told(act) else fault.longest_s):
            self._end(act)
        if act.over_s is not None and now_s - act.over_s > _PATIENCE * fault.resolves_s + _PATIENCE_S:
            act.gave_up = True
            yield act, f"{fault.alert} never {'fired' if act.fired_s is None else 'was resolved'}"

    def _end(self, act: Act) -> None:
        if not act.fault.ends_by_restart:
            self._around.mend(act.truth["number"])
        elif not act.is_restarted:
            self._around.strike({"kind": "preemption", "job": act.fault.job, "lasts": _RESTART_S})
            act.is_restarted = True

    def _is_told(self, act: Act) -> bool:
        return act.fired_s is not None and (act.arrived_s is not None or not self.has_alertmanager)

    def _told(
        self, act: Act, firing: Iterable[Mapping[str, Any]], arrived: Iterable[Mapping[str, Any]] | None,
        now_s: float,
    ) -> Iterator[tuple[Act, str]]:  # fmt: skip
        fires = next((alert for alert in firing if act.is_meant_by(alert)), None)
        has = arrived is not None and any(act.is_meant_by(alert) for alert in arrived)
        if fires is not None and (act.over_s is None or not act.labels):  # it may still learn more
            act.labels, act.summary = fires["labels"], fires["annotations"].get("summary", "")
        news = []
        if fires is not None and act.fired_s is None:
            act.fired_s = now_s
            news.append("fires")
        if has and act.arrived_s is None:
            act.arrived_s = now_s
            news.append("is in Alertmanager")
        if news:
            yield act, f"{act.fault.alert} {' and '.join(news)}: {act.summary}"
        if "fires" in news:
            yield act, f"why: {self._to_type(act.asks)}"
        is_gone = fires is None and not has and arrived is not None
        if is_gone and self._is_told(act) and act.over_s is not None:
            act.resolved_s = now_s
            also = ", in Alertmanager too" if self.has_alertmanager else ""
            yield act, f"{act.fault.alert} is resolved{also}"
