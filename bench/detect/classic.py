"""The rules that people have today: static thresholds over the same samples, evaluated as Prometheus does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.detect.samples import Samples

_EVERY_MS: Final = 15_000  # as rules are evaluated


class Rule(NamedTuple):
    name: str
    expr: str
    for_s: int


RULES: Final = (
    # PyTorch's watchdog or a rule: 600 s is what is found in the field; the wait of five minutes that often
    # stands beside it is left out, in favour of the rule.
    Rule("TrainingStalled", "time() - training_last_step_timestamp_seconds > 600", 0),
    Rule("GpuIdle", 'DCGM_FI_DEV_GPU_UTIL{namespace="ml"} < 20', 600),
    Rule("GpuHot", "DCGM_FI_DEV_GPU_TEMP > 83", 300),
    Rule("XidSeen", "DCGM_FI_DEV_XID_ERRORS != 0", 0),
    Rule("PodFailed", 'kube_pod_status_phase{phase="Failed"} == 1', 0),
    Rule("PodRestarted", "increase(kube_pod_container_status_restarts_total[10m]) > 0", 0),
    Rule("LossNaN", "training_loss != training_loss", 0),
)


class Fired(NamedTuple):
    rule: str
    at_ms: int
    labels: Mapping[str, str]


def fired(samples: Samples, start_ms: int, end_ms: int) -> list[Fired]:
    """Each series of each rule, when it fired first."""
    engine = Engine(samples)
    found = []
    for rule in RULES:
        result = engine.range(rule.expr, start_ms, end_ms, _EVERY_MS, QueryGuard())
        present = result.present if result.present is not None else np.ones(result.values.shape, bool)
        needed = rule.for_s * 1000 // _EVERY_MS + 1
        for row in range(len(result.labels)):
            length = 0
            for column, is_there in enumerate(present[row].tolist()):
                length = length + 1 if is_there else 0
                if length >= needed:
                    at_ms = int(result.steps_ms[column])
                    found.append(Fired(rule.name, at_ms, result.labels.labels(row)))
                    break
    return sorted(found, key=lambda one: one.at_ms)
