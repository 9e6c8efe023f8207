"""What an objective counts, as PromQL over the vocabulary of serving.yml and serving-health.yml."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.alert.slo.bounds import at_most
from trilens.settings.duration import in_ms

if TYPE_CHECKING:
    from datetime import timedelta

    from trilens.alert.slo.file import Objective

_SERVICE: Final = "cluster, namespace, workload, kind, team, job"
_MODEL: Final = f"{_SERVICE}, model"
_BEHIND_PROXY: Final = f"{_SERVICE}, service"
_ESCAPED: Final = re.compile(r"[\\.+*?()|\[\]{}^$]")


class Counted(NamedTuple):
    """Expressions, each of which gives one series a service."""

    events: str  # a second: requests, or the seconds themselves
    bad: str
    seen: str  # services that there are, whether this can be counted of them or not


def counted(objective: Objective) -> Counted:
    matchers = [_matcher(name, values) for name, values in objective.service.items()]
    service = ", ".join(matchers)
    seen = f"group by ({_SERVICE}) (trilens:inference_requests:per_second{{{service}}})"
    match objective.indicator:
        case "latency":
            return Counted(*_slower(("trilens:inference_duration:bucket", 1), objective, service), seen)
        case "ttft":
            tokens = _slower(("trilens:inference_first_token:bucket", 1), objective, service)
            chunks = _slower(("trilens:inference_first_response:bucket", 1000), objective, service)
            events, bad = (f"{token}\nor\n{chunk}" for token, chunk in zip(tokens, chunks, strict=True))
            return Counted(events, bad, seen)
        case "errors":
            return Counted(*_failed(service), seen)
        case "availability":
            available = f"trilens:inference_availability:ratio{{{service}}}"
            return Counted(
                f"group by ({_SERVICE}) ({available})", f"1 - min by ({_SERVICE}) ({available})", seen
            )


def _slower(histogram: tuple[str, int], objective: Objective, service: str) -> tuple[str, str]:
    """All, and those that took longer than the greatest bound within the threshold."""
    metric, per_second = histogram
    assert objective.threshold is not None, "the file was checked"
    pattern = at_most(_seconds(objective.threshold) * per_second)
    every = f'sum by ({_MODEL}) ({metric}{{{service}, le="+Inf"}})'
    within = f"sum by ({_MODEL}) (max without (le) ({metric}{{{service}, le=~{_quoted(pattern)}}}))"
    return every, f"clamp_min({every} - {within}, 0)"


def _failed(service: str) -> tuple[str, str]:
    """Proxies see every failure, servers only some; of servers, those that count them."""
    own = f"trilens:inference_requests:per_second{{{service}}}"
    failed = f"trilens:inference_errors:per_second{{{service}}}"
    proxied = "trilens:inference_http_{}:per_second{{{}}}"
    either = f"\nor on ({_BEHIND_PROXY})\n"
    return (
        f"sum by ({_BEHIND_PROXY}) ({proxied.format('requests', service)})"
        f"{either}sum by ({_MODEL}) ({own} and {failed})",
        f"sum by ({_BEHIND_PROXY}) ({proxied.format('errors', service)}){either}sum by ({_MODEL}) ({failed})",
    )


def _matcher(name: str, values: tuple[str, ...]) -> str:
    """`*` in a value stands for anything."""
    if len(values) == 1 and "*" not in values[0]:
        return f"{name}={_quoted(values[0])}"
    patterns = (_ESCAPED.sub(r"\\\g<0>", value).replace(r"\*", ".*") for value in values)
    return f"{name}=~{_quoted('|'.join(patterns))}"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _seconds(duration: timedelta) -> Decimal:
    return Decimal(in_ms(duration)) / 1000
