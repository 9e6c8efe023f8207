"""Which metric would tell what nobody tells of a service: docs/serving.md has the same as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.serve.pages.services_answers import UntoldAnswer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_FRONT: Final = "measure in front of it with trilens.serving"
_SCRAPE: Final = "have it scraped; a relabelling or a filter may drop it"
_PROXY: Final = "have the proxy in front of it scraped: Istio, Knative, ingress-nginx or Envoy Gateway"
_IDLE: Final = "no request ended within the last two minutes"
_UP: Final = "the server is scraped by another job, or not at all: see `trilens doctor`"
_COST: Final = "a price for its GPUs: `trilens prices`, and a workload that the pods belong to"

# What each server calls it; "" where it does not tell this.
_METRICS: Final[dict[str, dict[str, str]]] = {
    "requests_per_s": {
        "vllm": "vllm:request_success_total",
        "sglang": "sglang:num_requests_total",
        "triton": "nv_inference_request_success",
        "tgi": "tgi_request_count",
        "trilens": "inference_requests_total",
        "otel": "gen_ai_server_request_duration_seconds_count",
    },
    "latency": {
        "vllm": "vllm:e2e_request_latency_seconds",
        "sglang": "sglang:e2e_request_latency_seconds",
        "triton": "",
        "tgi": "tgi_request_duration",
        "trilens": "inference_request_duration_seconds",
        "otel": "gen_ai_server_request_duration_seconds",
    },
    "ttft": {
        "vllm": "vllm:time_to_first_token_seconds",
        "sglang": "sglang:time_to_first_token_seconds",
        "triton": "nv_inference_first_response_histogram_ms",
        "tgi": "",
        "trilens": "inference_time_to_first_token_seconds",
        "otel": "gen_ai_server_time_to_first_token_seconds",
    },
    "per_token": {
        "vllm": "vllm:inter_token_latency_seconds",
        "sglang": "sglang:inter_token_latency_seconds",
        "triton": "",
        "tgi": "tgi_request_mean_time_per_token_duration",
        "trilens": "inference_time_per_output_token_seconds",
        "otel": "gen_ai_server_time_per_output_token_seconds",
    },
    "running": {
        "vllm": "vllm:num_requests_running",
        "sglang": "sglang:num_running_reqs",
        "triton": "",
        "tgi": "tgi_batch_current_size",
        "trilens": "inference_requests_running",
        "otel": "",
    },
    "waiting": {
        "vllm": "vllm:num_requests_waiting",
        "sglang": "sglang:num_queue_reqs",
        "triton": "nv_inference_pending_request_count",
        "tgi": "tgi_queue_size",
        "trilens": "inference_queue_depth",
        "otel": "",
    },
    "errors_per_s": {
        "vllm": "",  # newer ones tell some, with finished_reason="error"
        "sglang": "",
        "triton": "nv_inference_request_failure",
        "tgi": "tgi_request_failure",
        "trilens": "inference_errors_total",
        "otel": "gen_ai_server_request_duration_seconds_count",
    },
}
_REMEDIES: Final = {  # where it is not only to be scraped
    ("ttft", "triton"): "start Triton with --metrics-config histogram_latencies=true",
    ("ttft", "trilens"): "stream the answer, or call first_token()",
    ("per_token", "trilens"): "call tokens(completion=...) in each request",
    ("waiting", "trilens"): "name the queue: trilens.serving.queue(...)",
}
_OF_REQUESTS: Final = ("latency", "ttft", "per_token")  # known only while some end


def untold(
    known: Mapping[str, bool], servers: Sequence[str], *, is_idle: bool, has_cost: bool
) -> Iterator[UntoldAnswer]:
    """`known` says of each figure whether anybody told it."""
    for figure, metrics in _METRICS.items():
        if known.get(figure, False):
            continue
        if is_idle and figure in _OF_REQUESTS:
            yield UntoldAnswer(figure, None, _IDLE)
            continue
        yield _of_server(figure, metrics, servers)
    if not has_cost:
        yield UntoldAnswer("per_hour", "trilens_workload_cost_rate_per_hour", _COST)


def _of_server(figure: str, metrics: Mapping[str, str], servers: Sequence[str]) -> UntoldAnswer:
    server = next((one for one in servers if one in metrics), None)
    if server is None:
        return UntoldAnswer(figure, None, _UP)
    metric = metrics[server]
    if not metric:
        return UntoldAnswer(figure, None, _PROXY if figure == "errors_per_s" else _FRONT)
    return UntoldAnswer(figure, metric, _REMEDIES.get((figure, server), _SCRAPE))
