"""What each inference server tells, by scrapes as it writes them; what it does not tell is absent, not 0."""

from __future__ import annotations

import pytest

from recording_rules import Recorder
from trilens.collect.exposition import parse_samples
from trilens.promql.memory import MemorySource

AT_MS = 1_700_000_000_000


def histogram(name: str, labels: str = "") -> str:
    comma = f"{labels}," if labels else ""
    braces = f"{{{labels}}}" if labels else ""
    return (
        f"# TYPE {name} histogram\n"
        f'{name}_bucket{{{comma}le="0.1"}} 4.0\n{name}_bucket{{{comma}le="1.0"}} 9.0\n'
        f'{name}_bucket{{{comma}le="+Inf"}} 10.0\n{name}_sum{braces} 5.0\n{name}_count{braces} 10.0\n'
    )


OURS = 'engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"'
VLLM = f"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{{OURS}}} 8.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{{OURS}}} 2.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{{OURS}}} 0.4
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{{{OURS}}} 1.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{{{OURS}}} 8000.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{{OURS}}} 1200.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{{{OURS},finished_reason="stop"}} 9.0
vllm:request_success_total{{{OURS},finished_reason="abort"}} 1.0
""" + "".join(
    histogram(f"vllm:{name}", OURS)
    for name in (
        "time_to_first_token_seconds",
        "inter_token_latency_seconds",
        "e2e_request_latency_seconds",
        "request_queue_time_seconds",
    )
)
NAMED = 'model_name="meta-llama/Llama-3.1-8B-Instruct"'
SGLANG = f"""\
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{{{NAMED}}} 8.128902e+06
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{{{NAMED}}} 7.557572e+06
# TYPE sglang:token_usage gauge
sglang:token_usage{{{NAMED}}} 0.28
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{{{NAMED}}} 162.0
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{{{NAMED}}} 2826.0
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{{{NAMED}}} 900.0
# TYPE sglang:num_retracted_requests_total counter
sglang:num_retracted_requests_total{{{NAMED}}} 3.0
""" + "".join(
    histogram(f"sglang:{name}", NAMED)
    for name in (
        "time_to_first_token_seconds",
        "inter_token_latency_seconds",
        "e2e_request_latency_seconds",
        "queue_time_seconds",
    )
)
TRITON = """\
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="my_model",version="1"} 161
# TYPE nv_inference_request_failure counter
nv_inference_request_failure{model="my_model",reason="OTHER",version="1"} 0
nv_inference_request_failure{model="my_model",reason="BACKEND",version="1"} 2
# TYPE nv_inference_request_duration_us counter
nv_inference_request_duration_us{model="my_model",version="1"} 139358
# TYPE nv_inference_queue_duration_us counter
nv_inference_queue_duration_us{model="my_model",version="1"} 11110
# TYPE nv_inference_queue_summary_us summary
nv_inference_queue_summary_us_count{model="my_model",version="1"} 161
nv_inference_queue_summary_us_sum{model="my_model",version="1"} 11110
nv_inference_queue_summary_us{model="my_model",version="1",quantile="0.99"} 101
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{model="my_model",version="1"} 0
"""
TGI = """\
# TYPE tgi_request_count counter
tgi_request_count 120
# TYPE tgi_request_success counter
tgi_request_success 110
# TYPE tgi_request_failure counter
tgi_request_failure{err="overloaded"} 10
# TYPE tgi_queue_size gauge
tgi_queue_size 3
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 16
""" + "".join(
    histogram(f"tgi_request_{name}")
    for name in (
        "duration",
        "queue_duration",
        "mean_time_per_token_duration",
        "generated_tokens",
        "input_length",
    )
)

EVERY = {"queue:count", "requests:per_second", "request_duration_mean:seconds", "queue_time_mean:seconds"}
QUANTILES = {"request_duration:seconds", "queue_time:seconds", "time_per_token:seconds"}
OF_TOKENS = {*EVERY, *QUANTILES, "running:count", "tokens:per_second"}
OF_CACHE = {"kv_cache_used:ratio", "preemptions:per_second", "time_to_first_token:seconds"}
ERRORS = {"errors:per_second", "errors:ratio"}


@pytest.mark.parametrize(
    ("server", "text", "tells"),
    [
        ("vllm", VLLM, OF_TOKENS | OF_CACHE),  # before it counted errors
        ("sglang", SGLANG, OF_TOKENS | OF_CACHE),
        ("triton", TRITON, EVERY | ERRORS),
        ("tgi", TGI, OF_TOKENS | ERRORS),
    ],
    ids=["vllm", "sglang", "triton", "tgi"],
)
def test_what_a_server_tells(server: str, text: str, tells: set[str]) -> None:
    samples, _ = parse_samples(text.encode(), openmetrics=False)
    kinds = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE")}
    source = MemorySource()
    for sample in samples:
        labels = {str(k): str(v) for k, v in sample.labels}
        gauge = kinds.get(labels["__name__"]) == "gauge"
        points = [(AT_MS + 30_000 * k, sample.value * (1 if gauge else k + 1)) for k in range(5)]
        source.add({**labels, "job": "servers", "instance": "a"}, points)
    recorded = Recorder(source, "serving.yml").evaluate(AT_MS + 120_000)
    found = {
        record.removeprefix("trilens:inference_")
        for record, series in recorded.items()
        if series and not record.endswith((":info", ":bucket")) and "_scraped:" not in record
    }
    assert {name for name in found if not name.endswith(("_sum:per_second", "_count:per_second"))} == tells
    for series in recorded["trilens:inference_requests:per_second"]:
        assert dict(series)["server"] == server
