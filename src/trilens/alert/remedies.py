"""Who would tell a metric, by its name, and what to do so that it is told."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import re2

from trilens.alert.dcgm_counters import COUNTERS, counters_line

if TYPE_CHECKING:
    from collections.abc import Iterable

_DCGM: Final = "DCGM_"
_TRAINING: Final = "training programs"
_INFERENCE: Final = "inference services"


class Remedy(NamedTuple):
    inputs: tuple[str, ...]  # who would have to be heard, in a few words
    text: str


# The patterns of names, the input that tells them, and what brings it.
_BY_NAME: Final = tuple(
    (re.compile(pattern), Remedy((who,), text))
    for pattern, who, text in (
        (
            r"trilens_(gpu_xid|gpu_answers|gpu_recovery|gpu_nvlink|gpu_process|node_|nvswitch_|agent_)",
            "trilens agent",
            "run `trilens agent` on the GPU nodes and have it scraped (docs/agent.md)",
        ),
        (
            r"trilens_(sdk|barrier|clock|stalled)",
            _TRAINING,
            "no training program with the SDK tells it, or none is scraped (docs/distributed.md)",
        ),
        (
            r"trilens_",
            "this server",
            "what tells it in this server does not work, or has nothing yet (docs/self-monitoring.md)",
        ),
        (
            r"training_",
            _TRAINING,
            "no program tells it: it does not use the SDK, does not log it, or is not scraped (docs/sdk.md)",
        ),
        (
            r"inference_",
            _INFERENCE,
            "no program tells it: it does not use the SDK, or is not scraped (docs/serving.md)",
        ),
        (
            r"vllm:",
            _INFERENCE,
            "no vLLM server is scraped, or its version has another name for it (docs/serving.md)",
        ),
        (
            r"sglang:",
            _INFERENCE,
            "no SGLang server is scraped, or it runs without --enable-metrics (docs/serving.md)",
        ),
        (
            r"nv_",
            _INFERENCE,
            "no Triton server is scraped, or this metric is off there (docs/serving.md)",
        ),
        (r"tgi_", _INFERENCE, "no TGI server is scraped (docs/serving.md)"),
        (
            r"kube_",
            "Kubernetes",
            "watch the cluster (kubernetes.clusters) or scrape kube-state-metrics (docs/platform-metrics.md)",
        ),
        (
            r"kueue_",
            "Kueue",
            "scrape Kueue, with `metrics.enableClusterQueueResources: true` in its configuration",
        ),
        (r"container_", "cAdvisor", "scrape the kubelet's cAdvisor (docs/platform-metrics.md)"),
        (
            r"node_",
            "node_exporter",
            "scrape node_exporter, or turn on its collector for it (docs/platform-metrics.md)",
        ),
        (r"up$", "scrapes", "nothing is scraped: set scrape.scrape_configs (docs/scraping.md)"),
    )
)

_NO_DCGM: Final = Remedy(
    ("GPUs",), "have dcgm-exporter scraped, or run `trilens agent` on the GPU nodes (docs/scraping.md)"
)


def remedy(missing: Iterable[tuple[str, ...]], *, has_dcgm: bool) -> Remedy:
    """`missing` are names, or patterns of names, of which one each is enough."""
    lines: list[str] = []
    steps: list[Remedy] = []
    for alternatives in filter(None, missing):
        field = next((name for name in alternatives if _DCGM in name), None)
        if field is not None:
            lines.append(counters_line(_newest(field)))
        else:
            steps.append(_step(alternatives))
    if lines:
        steps.insert(0, _counters(lines) if has_dcgm else _NO_DCGM)
    inputs = dict.fromkeys(who for step in steps for who in step.inputs)
    return Remedy(tuple(inputs), "; ".join(dict.fromkeys(step.text for step in steps)))


def _counters(lines: Iterable[str]) -> Remedy:
    text = "add to the counters file of dcgm-exporter:\n" + "\n".join(dict.fromkeys(lines))
    return Remedy(("counters of dcgm-exporter",), text)


def _newest(pattern: str) -> str:
    """A field by the pattern of its names over time; those of today come first in the table."""
    if pattern in COUNTERS:
        return pattern
    return next((name for name in COUNTERS if re2.fullmatch(pattern, name)), pattern)


def _step(alternatives: tuple[str, ...]) -> Remedy:
    for pattern, known in _BY_NAME:
        if any(pattern.match(name) for name in alternatives):
            return known
    return Remedy(("something else",), f"nothing that is scraped has {' or '.join(alternatives)}")
