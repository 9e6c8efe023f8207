"""What comes to the simulated inference services is what came to the real ones."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from worlds import rows

from servers import require_corpus
from trilens.simulate.inference_load import BIN_S, LOADS, draw_tokens
from trilens.simulate.scenario import Serving
from trilens.simulate.serving import InferenceServers

TOOL = Path(__file__).parents[2] / "tools" / "fit-inference-load"
NOON_MS = 1_768_392_000_000


@pytest.mark.parametrize("name", LOADS)
def test_the_shipped_figures_are_those_of_the_traces(name: str) -> None:
    folder = require_corpus("inference")
    tool = runpy.run_path(str(TOOL))
    trace = tool["read_trace"](folder / tool["FILES"][name])
    assert tool["fit"](trace) == LOADS[name]
    uniform = np.random.default_rng(1).uniform(size=20_000)
    for drawn, real in (
        (draw_tokens(LOADS[name].prompt_tokens, uniform), trace.prompt_tokens),
        (draw_tokens(LOADS[name].output_tokens, uniform), trace.output_tokens),
    ):
        for quantile in (0.15, 0.4, 0.6, 0.85, 0.97):
            assert np.quantile(drawn, quantile) == pytest.approx(np.quantile(real, quantile), rel=0.35)


def _counts(text: bytes, name: str) -> float:
    (line,) = (line for line in text.decode().splitlines() if line.startswith(name + "{"))
    return float(line.rpartition(" ")[2])


@pytest.mark.parametrize("load", LOADS)
def test_requests_come_as_unevenly_as_in_the_traces(load: str) -> None:
    servers = InferenceServers(NOON_MS, seed=1)
    servers.add("pod", Serving(load=load, requests_per_second=2.5), 0)
    came = []
    for number in range(1, 1000):
        servers.advance(number * BIN_S)
        came.append(_counts(servers.text("pod"), "vllm:request_success_total"))
    per_bin = np.diff(np.array(came))
    shape = per_bin.mean() ** 2 / (per_bin.var() - per_bin.mean())
    # The wave of the day, which the traces are too short to show, adds to what is uneven.
    assert 0.5 * LOADS[load].burst_shape < shape < 1.5 * LOADS[load].burst_shape


def test_histograms_are_whole_and_agree_with_their_counts() -> None:
    servers = InferenceServers(NOON_MS, seed=1)
    servers.add("pod", Serving(), 0)
    servers.advance(600)
    text = servers.text("pod")
    requests = _counts(text, "vllm:request_success_total")
    assert requests > 500
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_prompt_tokens"):
        buckets = [row for row in rows(text) if row.name == f"vllm:{name}_bucket"]
        counts = [row.value for row in buckets]
        assert counts == sorted(counts)
        assert buckets[-1].labels["le"] == "+Inf"
        assert counts[-1] == _counts(text, f"vllm:{name}_count") == requests
    tokens = _counts(text, "vllm:generation_tokens_total")
    assert _counts(text, "vllm:inter_token_latency_seconds_count") == tokens - requests
    assert _counts(text, "vllm:request_generation_tokens_sum") == tokens


def test_too_many_requests_wait() -> None:
    servers = InferenceServers(NOON_MS, seed=1)
    servers.add("calm", Serving(requests_per_second=1, capacity=10), 0)
    servers.add("swamped", Serving(requests_per_second=8, capacity=4), 0)
    servers.advance(600)
    assert _counts(servers.text("calm"), "vllm:num_requests_waiting") == 0
    assert _counts(servers.text("swamped"), "vllm:num_requests_waiting") > 500
    means = [
        _counts(servers.text(pod), "vllm:time_to_first_token_seconds_sum")
        / _counts(servers.text(pod), "vllm:time_to_first_token_seconds_count")
        for pod in ("calm", "swamped")
    ]
    assert means[1] > 20 * means[0]


def test_many_replicas_come_and_go() -> None:
    """Rows are reused: a new replica counts from nothing, and the others keep what they have."""
    servers = InferenceServers(NOON_MS, seed=1)
    for number in range(150):
        servers.add(f"pod-{number}", Serving(), 0)
    servers.advance(300)
    kept = _counts(servers.text("pod-149"), "vllm:request_success_total")
    assert kept > 0
    servers.remove("pod-3", 300)
    servers.add("new", Serving(), 300)
    assert _counts(servers.text("new"), "vllm:request_success_total") == 0
    assert _counts(servers.text("pod-149"), "vllm:request_success_total") == kept
