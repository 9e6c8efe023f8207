"""Why requests to a server take long: they wait, or they are slow themselves."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.recent import before, late, now
from trilens.diagnose.scheduling.waiting import node_of, pod_key
from trilens.model.finding import Subject
from trilens.model.verdict import Fact, Missing
from trilens.resolve.reading import conditions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.case import Case
    from trilens.diagnose.case_file import CaseSeries

_WARM_MS: Final = 5 * 60_000  # caches and graphs of a replica that has just come up
_WAITING: Final = 1.0  # requests, in the middle of the last readings
_FULL: Final = 0.95
_FULL_AT_PEAKS: Final = 0.9  # of a look now and then, while requests are preempted for want of room
_SPARE: Final = 0.7  # utilisation: below it GPUs wait for work
_STEADY: Final = 0.1  # the number served at once hardly moves: it is at its limit
_SLOWER: Final = 1.5  # times what was usual before
_FIRST_TOKEN_S: Final = 2.0  # where nothing is known from before
_NEXT_TOKEN_S: Final = 0.2
# Alerts on what the server itself measures of whole requests: what is in front of it is not in that.
_LONG_BY_ITSELF: Final = ("InferenceP95High", "InferenceP99High")
_METRICS: Final = Missing("the metrics of its server", "have it scraped: docs/serving.md")


@evidence("starting", "warm")
def replicas_warm(case: Case) -> Answer:
    if not case.pods:
        return Answer.unknown(Missing("its pods", 'allow "get" on pods'))
    cold = []
    for pod in case.pods:
        ready = next((one for one in conditions(pod) if one.type == "Ready"), None)
        if ready is None or not ready.holds:
            cold.append((pod, "not ready", ready.since_ms if ready is not None else None))
        elif ready.since_ms is not None and case.now_ms - ready.since_ms < _WARM_MS:
            cold.append((pod, "ready only since", ready.since_ms))
    source = "conditions of the pods"
    if not cold:
        return Answer(("warm",), (Fact(f"{len(case.pods)} of {len(case.pods)} replicas are ready", source),))
    pod, how, since_ms = cold[0]
    facts = tuple(Fact(f"{one.name}: {said}", source, at) for one, said, at in cold)
    names = {
        "cold": pod.name + (" is" if how == "not ready" else " was until lately"),
        "cold_text": f"{len(cold)} of {len(case.pods)} replicas",
    }
    subject = Subject(pod=pod_key(pod), node=node_of(pod) or None)
    # While others are warm, one that starts explains less.
    confidence = 0.9 if 2 * len(cold) >= len(case.pods) else 0.6
    return Answer(("starting",), facts, confidence, names, subject=subject, since_ms=since_ms)


@evidence("waiting", "none")
def requests_wait(case: Case) -> Answer:
    told = _told(case, "inference-queue")
    if not told:
        return Answer.unknown(_METRICS)
    waiting = sum(now(one) for one in told)
    fact = Fact(f"{waiting:.0f} requests wait", "queue of the server", told[0].t_ms[-1])
    if waiting < _WAITING:
        return Answer(("none",), (fact,))
    return Answer(("waiting",), (fact,), 0.97, {"waiting": f"{waiting:.0f}"})


@evidence("full", "room")
def cache_full(case: Case) -> Answer:
    told = _told(case, "inference-cache")
    if not told:
        return Answer.unknown(_METRICS)
    used = max(now(one) for one in told)
    peak = max(max(late(one)) for one in told)
    preemptions = _told(case, "inference-preemptions")
    preempted = sum(now(one) for one in preemptions)
    # What is put back because nothing is free leaves room behind: it is full at its peaks.
    is_full_at_peaks = preempted > 0 and peak >= _FULL_AT_PEAKS
    text = f"{used:.0%} of the KV cache is used"
    if round(peak, 2) > round(used, 2):
        text += f", {peak:.0%} at its peak"
    since_ms = None
    if preempted > 0:
        since_ms = min(_since(one) for one in preemptions if now(one) > 0)
        text += f", {preempted:.2g} preemptions a second for {(case.now_ms - since_ms) / 60_000:.0f} min"
    fact = Fact(text, "KV cache of the server", told[0].t_ms[-1])
    if used >= _FULL or is_full_at_peaks:
        how = "full" if used >= _FULL else "full again and again"
        return Answer(("full",), (fact,), 0.95, {"full": how, "cache_text": text}, since_ms=since_ms)
    return Answer(("room",), (fact,))


@evidence("capped", "saturated")
def batch_at_limit(case: Case) -> Answer:
    """Always as many are served at once, while GPUs have time to spare: a setting keeps the rest out."""
    running, busy = _told(case, "inference-running"), _told(case, "gpu-utilization")
    if not running or not busy:
        return Answer.unknown(_METRICS)
    counts = [value for one in running for value in late(one)]
    middle = median(counts)
    wanders = (max(counts) - min(counts)) / middle if middle else 1.0
    use = sum(now(one) for one in busy) / len(busy)
    text = f"utilisation {use:.0%}"
    facts = (
        Fact(f"{middle:.0f} are served at once, within {wanders:.0%}", "server", running[0].t_ms[-1]),
        Fact(text, "its GPUs", busy[0].t_ms[-1]),
    )
    names = {"running": f"{middle:.0f}", "busy": text}
    if wanders <= _STEADY and use < _SPARE:
        return Answer(("capped",), facts, 0.9, names)
    return Answer(("saturated",), facts, 0.9, names)


@evidence("next-token", "first-token", "long-answers", "neither")
def request_speed(case: Case) -> Answer:
    first, following = _told(case, "inference-first-token"), _told(case, "inference-next-token")
    whole = _told(case, "inference-duration") or _told(case, "inference-duration-mean")
    if not (first or following or whole):
        return Answer.unknown(_METRICS)
    facts = []
    names = {}
    found = []
    for name, told, limit in (
        ("next-token", following, _NEXT_TOKEN_S),
        ("first-token", first, _FIRST_TOKEN_S),
    ):
        for one in told[:1]:
            lately, usual = now(one), before(one)
            said = f"{lately:.3g} s, {usual:.3g} s before" if usual is not None else f"{lately:.3g} s"
            names[name.replace("-", "_")] = said
            facts.append(Fact(f"{name}: {said}", "95th percentile of the server", one.t_ms[-1]))
            if lately > limit or (usual is not None and lately > _SLOWER * usual):
                found.append(name)
    if found:
        return Answer((found[0],), tuple(facts), 0.95, names)
    is_long = any(alert.labels.get("alertname") in _LONG_BY_ITSELF for alert in case.file.alerts)
    for one in whole[:1]:
        lately, usual = now(one), before(one)
        facts.append(Fact(f"whole requests take {lately:.3g} s", "the server", one.t_ms[-1]))
        names["served"] = f"whole requests take {lately:.3g} s"
        is_long = is_long or (usual is not None and lately > _SLOWER * usual)
    names.setdefault("served", "; ".join(fact.text for fact in facts))
    if not is_long:
        return Answer(("neither",), tuple(facts), 0.95, names)
    if not (first and following):
        return Answer((UNKNOWN,), tuple(facts), names=names, missing=(_METRICS,))
    # What neither waits nor comes slowly takes long because it is much.
    return Answer(("long-answers",), tuple(facts), 0.95, names)


def _since(series: CaseSeries) -> int:
    """Since when it has not been 0, as far as the case goes back; it is not now."""
    last_zero = max((at for at, value in enumerate(series.values) if value <= 0), default=-1)
    return series.t_ms[min(last_zero + 1, len(series.t_ms) - 1)]


def _told(case: Case, figure: str) -> Sequence[CaseSeries]:
    return [one for one in case.series(figure) if one.values]
