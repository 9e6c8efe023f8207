"""What to do so that a metric is there, by its name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import re2

from trilens.alert.dcgm_counters import COUNTERS, counters_line

if TYPE_CHECKING:
    from collections.abc import Iterable

_DCGM: Final = "DCGM_"
_BY_NAME: Final = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (
            r"trilens_(gpu_xid|gpu_answers|gpu_recovery|gpu_nvlink|gpu_process|node_|nvswitch_|agent_)",
            "run `trilens agent` on the GPU nodes and have it scraped (docs/agent.md)",
        ),
        (
            r"trilens_(sdk|barrier|clock|stalled)",
            "no training program with the SDK tells it, or none is scraped (docs/distributed.md)",
        ),
        (r"trilens_", "scrape this server's own /metrics (docs/api.md)"),
        (
            r"training_",
            "no program tells it: it does not use the SDK, does not log it, or is not scraped (docs/sdk.md)",
        ),
        (
            r"inference_",
            "no program tells it: it does not use the SDK, or is not scraped (docs/serving.md)",
        ),
        (r"vllm:", "no vLLM server is scraped, or its version has another name for it (docs/serving.md)"),
        (r"sglang:", "no SGLang server is scraped, or it runs without --enable-metrics (docs/serving.md)"),
        (r"nv_", "no Triton server is scraped, or this metric is off there (docs/serving.md)"),
        (r"tgi_", "no TGI server is scraped (docs/serving.md)"),
        (
            r"kube_",
            "watch the cluster (kubernetes.clusters) or scrape kube-state-metrics (docs/platform-metrics.md)",
        ),
        (r"kueue_", "scrape Kueue, with `metrics.enableClusterQueueResources: true` in its configuration"),
        (r"container_", "scrape the kubelet's cAdvisor (docs/platform-metrics.md)"),
        (r"node_", "scrape node_exporter, or turn on its collector for it (docs/platform-metrics.md)"),
        (r"up$", "nothing is scraped: set scrape.targets (docs/scraping.md)"),
    )
)


def remedy(missing: Iterable[tuple[str, ...]], *, has_dcgm: bool) -> str:
    """`missing` are names, or patterns of names, of which one each is enough."""
    lines: list[str] = []
    steps: list[str] = []
    for alternatives in filter(None, missing):
        field = next((name for name in alternatives if _DCGM in name), None)
        if field is not None:
            lines.append(counters_line(_newest(field)))
        else:
            steps.append(_step(alternatives))
    if lines and has_dcgm:
        steps.insert(0, "add to the counters file of dcgm-exporter:\n" + "\n".join(dict.fromkeys(lines)))
    elif lines:
        steps.insert(
            0, "have dcgm-exporter scraped, or run `trilens agent` on the GPU nodes (docs/scraping.md)"
        )
    return "; ".join(dict.fromkeys(steps))


def _newest(pattern: str) -> str:
    """A field by the pattern of its names over time; those of today come first in the table."""
    if pattern in COUNTERS:
        return pattern
    return next((name for name in COUNTERS if re2.fullmatch(pattern, name)), pattern)


def _step(alternatives: tuple[str, ...]) -> str:
    for pattern, text in _BY_NAME:
        if any(pattern.match(name) for name in alternatives):
            return text
    return f"nothing that is scraped has {' or '.join(alternatives)}"
