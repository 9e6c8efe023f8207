"""Whether anything would be found and anybody told: rules, detection, incidents, delivery; and the ledger."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from trilens.serve.checkup.finding import Finding, few, many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.checkup.evidence import Evidence

_LATE_S: Final = 15 * 60.0  # group_wait and group_interval, for which a message may wait, are shorter


def rules_see(evidence: Evidence) -> str:
    alerting = sum(rule.get("type") == "alerting" for rule in evidence.rules)
    return f"{many(len(evidence.rules), 'rule')}, {alerting:,} of them alerting"


def rules(evidence: Evidence) -> Iterator[Finding]:
    for unread in evidence.readiness.get("rules", {}).get("unread", []):
        means = "these rules are not evaluated; all others are"
        yield Finding(
            "rules", True, f"rules were left out: {unread}", means, "correct them and restart or reload"
        )
    by_error: dict[str, list[str]] = defaultdict(list)
    for rule in evidence.rules:
        if rule["health"] == "err":
            by_error[rule.get("lastError", "")].append(rule["name"])
    for error, names in sorted(by_error.items()):
        means = "what they record is missing until they succeed"
        remedy = "trilens rules list --failing shows them; correct them, or what they read"
        yield Finding("rules", True, f"rules fail: {few(names)}: {error}", means, remedy)
    if late := evidence.own("trilens_rule_group_iterations_missed_total"):
        what = f"{many(late, 'pass', 'passes')} over rules left out since the start"
        means = "the one before took too long: alerts come late"
        yield Finding("rules", False, what, means, "give the server more CPU, or these rules less to read")


def blind_rules(evidence: Evidence) -> Iterator[Finding]:
    """One, however many there are: on a new server that is most of them, for want of the same few inputs."""
    blind = [rule for rule in evidence.rules if "blind" in rule]
    if not blind:
        return
    alerting = sum(rule["type"] == "alerting" for rule in evidence.rules)
    names = few([rule["name"] for rule in blind])
    what = f"{len(blind):,} of {many(alerting, 'alerting rule')} can find nothing: {names}"
    waiting = Counter(one for rule in blind for one in rule["blind"].get("inputs", ()))
    means = "nothing is heard of what they look at"
    if waiting:
        means += ": " + ", ".join(f"{one} ({many(count, 'rule')})" for one, count in waiting.most_common())
    remedy = "connect what you have of it: trilens rules list --blind says how, for each of them"
    yield Finding("blind_rules", False, what, means, remedy)


def detection_sees(evidence: Evidence) -> str:
    return many(len(evidence.findings["data"]), "finding")


def detection(evidence: Evidence) -> Iterator[Finding]:
    for warning in evidence.findings.get("warnings", []):
        means = "what detectors would find in it is not found"
        yield Finding("detection", False, warning, means, "wait a moment; if it stays, see the server's log")
    if failures := evidence.own("trilens_detection_failures_total"):
        what = f"detectors failed {many(failures, 'time')} since the start"
        means = "what they look for may be missed: this is a defect"
        yield Finding(
            "detection", True, what, means, "tell the authors of Trilens what the server's log says"
        )
    if skipped := evidence.own("trilens_detection_rounds_skipped_total"):
        what = f"{many(skipped, 'look')} at the fleet left out since the start"
        means = "the one before took too long: findings come late"
        yield Finding("detection", False, what, means, "give the server more CPU")


def incidents_see(evidence: Evidence) -> str:
    return f"{many(len(evidence.incidents), 'incident')} open"


def unheard_incidents(evidence: Evidence) -> Iterator[Finding]:
    """There are incidents, and nobody whom it could tell."""
    if evidence.incidents and not evidence.receivers:
        what = f"{many(len(evidence.incidents), 'incident')} open, and no receiver is set"
        remedy = "set alerting.receivers: docs/delivery.md"
        yield Finding("unheard_incidents", False, what, "nobody is told of them", remedy)


def receivers_see(evidence: Evidence) -> str:
    return many(len(evidence.receivers), "receiver") if evidence.receivers else "nobody is told"


def receivers(evidence: Evidence) -> Iterator[Finding]:
    for one in evidence.receivers:
        place = f"{one['receiver']} ({one['kind']}, {one['where']})"
        remedy = f"see its settings and docs/delivery.md, then: trilens receivers test {one['receiver']}"
        late = _late(one)
        if one["state"] == "failing":
            means = f"nobody is told by it; messages that wait: {one['waiting']}{late}"
            means += f", refused: {one['refused']}"
            yield Finding("receivers", True, f"{place}: {one['last_error']}", means, remedy)
        elif late:
            what = f"{place}: {many(one['waiting'], 'message')} waiting{late}"
            means = "nobody is told of them by it, though no try has failed: it is slow, or the queue is"
            first = "see the server's log, and whether alerting.group_interval is as long"
            yield Finding("receivers", True, what, means, f"{first}; {remedy}")
        if one["refused"] and one["state"] != "failing":
            means = f"{one['refused']} messages since the start were not taken, the last one at that time"
            yield Finding("receivers", False, f"{place}: {one['last_error']}", means, remedy)
        if one["dropped"]:
            means = "there was no room for them: see alerting.max_waiting"
            yield Finding(
                "receivers", True, f"{place}: {one['dropped']} messages were dropped", means, remedy
            )


def _late(receiver: dict[str, Any]) -> str:
    """For how long its oldest message has been waiting; nothing where that is not long."""
    since_ms = receiver["waiting_since_ms"]
    waits_s = time.time() - since_ms / 1000 if since_ms is not None else 0.0
    if waits_s < _LATE_S:
        return ""
    long = many(waits_s // 3600, "hour") if waits_s >= 7200 else many(waits_s // 60, "minute")
    return f", the oldest for {long}"


def ledger_sees(evidence: Evidence) -> str:
    upto_s = evidence.own("trilens_ledger_upto_timestamp_seconds")
    if upto_s is None:
        return "nothing is booked yet"
    return f"booked until {datetime.fromtimestamp(upto_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


def ledger(evidence: Evidence) -> Iterator[Finding]:
    for trouble in evidence.readiness.get("ledger", {}).get("troubles", []):
        remedy = "it is tried again by itself; see the server's log"
        yield Finding("ledger", True, trouble, "what was spent is not known up to now", remedy)
