"""What GPUs and inference servers said, by minute: through the shipped rules and the real engine."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from recording_rules import Recorder
from trilens.model.errors import QueryCancelled, SourceError
from trilens.promql.memory import MemorySource
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.money.ledger_signals import LedgerSignals
from trilens.serve.own_queries import EmbeddedQueries, Matrix, Times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.source import Signals

HOUR_MS = 1_768_392_000_000
MINUTE_MS = 60_000
NAN = float("nan")


class Fleet:
    """Readings every 30 s, from the hour's beginning; each value holds for a minute."""

    def __init__(self) -> None:
        self.source = MemorySource()
        self.minutes = 0

    def tell(
        self,
        metric: str,
        values: Sequence[float],
        *,
        from_minute: int = 0,
        counter: bool = False,
        **labels: str,
    ) -> Fleet:
        samples = []
        for at in range(2 * len(values)):
            value = values[at // 2] if not counter else sum(values[: at // 2 + 1])
            if value == value:
                samples.append((HOUR_MS + from_minute * MINUTE_MS + (at + 1) * 30_000 - 5_000, value))
        self.source.add({"__name__": metric, **labels}, samples)
        self.minutes = max(self.minutes, from_minute + len(values))
        return self

    def gpu(self, field: str, values: Sequence[float], uuid: str = "GPU-1", **labels: str) -> Fleet:
        return self.tell(
            f"DCGM_FI_{field}", values, UUID=uuid, gpu="0", Hostname="n", modelName="H100", **labels
        )

    def record(self, *files: str, from_minute: int = 0) -> Fleet:
        recorder = Recorder(self.source, *files)
        for at in range(2 * from_minute + 1, 2 * self.minutes + 1):
            recorder.evaluate(HOUR_MS + at * 30_000)
        return self

    def signals(self, minutes: int | None = None) -> Signals:
        queries = EmbeddedQueries(self.source)
        return LedgerSignals(queries).signals(HOUR_MS, HOUR_MS + (minutes or self.minutes) * MINUTE_MS)


def row(found: Signals, figure: str, uuid: str = "GPU-1", instance: str = "") -> list[float]:
    values = getattr(found.gpus, figure)[found.gpus.gpus[uuid, instance]]
    return [round(float(value), 3) for value in values]


def same(found: list[float], expected: list[float]) -> bool:
    return bool(np.array_equal(found, expected, equal_nan=True))


@pytest.fixture(scope="module")
def recorded() -> Signals:
    fleet = Fleet()
    fleet.gpu("DEV_GPU_UTIL", [80, 80, NAN, 0]).gpu("DEV_POWER_USAGE", [400, 410, NAN, 110])
    fleet.gpu("PROF_SM_ACTIVE", [0.5, 0.6, NAN, 0]).gpu("PROF_PIPE_TENSOR_ACTIVE", [0.3, 0.3, NAN, 0])
    fleet.gpu("DEV_CLOCKS_EVENT_REASONS", [4, 4 + 8 + 64, NAN, 1])
    for at, mask in enumerate((0x20, 0x80, 0x2, 0x100)):
        fleet.gpu("DEV_CLOCKS_EVENT_REASONS", [mask] * 4, f"GPU-mask-{at}")
        fleet.gpu("DEV_POWER_USAGE", [100] * 4, f"GPU-mask-{at}")
    for instance, active in (("7", 0.9), ("8", 0.0)):
        fleet.gpu(
            "PROF_GR_ENGINE_ACTIVE", [active] * 4, "GPU-mig", GPU_I_ID=instance, GPU_I_PROFILE="1g.10gb"
        )
        fleet.gpu("DEV_POWER_USAGE", [250] * 4, "GPU-mig", GPU_I_ID=instance, GPU_I_PROFILE="1g.10gb")
    fleet.gpu("DEV_GPU_UTIL", [95] * 4, "GPU-stuck").gpu("DEV_POWER_USAGE", [600] * 4, "GPU-stuck")
    fleet.gpu("PROF_PIPE_TENSOR_ACTIVE", [0] * 4, "GPU-stuck").gpu("PROF_DRAM_ACTIVE", [0] * 4, "GPU-stuck")
    return fleet.record("gpu.yml").signals()


def test_minutes_of_a_gpu(recorded: Signals) -> None:
    assert recorded.trouble == ()
    assert recorded.gpus.from_ms == HOUR_MS
    # Recording goes on from what was last said for as long as lookback does: five minutes.
    assert row(recorded, "active") == [0.8, 0.8, 0.8, 0.0]
    assert row(recorded, "watts") == [400, 410, 410, 110]
    assert row(recorded, "busy") == [0.5, 0.6, 0.6, 0.0]


def test_only_what_slows_the_hardware_is_throttling(recorded: Signals) -> None:
    assert row(recorded, "throttled") == [0, 1, 1, 0]  # the software power cap is normal at full load
    found = [row(recorded, "throttled", f"GPU-mask-{at}")[0] for at in range(4)]
    assert found == [1, 1, 0, 0]
    assert same(row(recorded, "throttled", "GPU-stuck"), [NAN] * 4)


def test_mig_instances_by_their_own_activity(recorded: Signals) -> None:
    assert row(recorded, "active", "GPU-mig", "7") == [0.9] * 4
    assert row(recorded, "active", "GPU-mig", "8") == [0.0] * 4
    assert row(recorded, "watts", "GPU-mig", "8") == [250.0] * 4


def test_profiling_that_sticks_at_zero_tells_nothing(recorded: Signals) -> None:
    assert row(recorded, "active", "GPU-stuck") == [0.95] * 4
    assert same(row(recorded, "busy", "GPU-stuck"), [NAN] * 4)


def test_without_recording_rules_the_exporter_s_own_fields() -> None:
    fleet = Fleet()
    unknown = 2147483632.0
    fleet.gpu("DEV_GPU_UTIL", [50, 50, NAN, 70]).gpu("DEV_POWER_USAGE", [300, unknown, NAN, 310])
    fleet.gpu("PROF_PIPE_TENSOR_ACTIVE", [0.2, 0.2, NAN, 0.2])
    fleet.gpu("DEV_CLOCK_THROTTLE_REASONS", [8, 0, NAN, 4])
    fleet.tell("DCGM_FI_DEV_GPU_UTIL", [10] * 4, gpu_uuid="GPU-2", gpu="1", hostname="n")
    found = fleet.signals()
    assert same(row(found, "active"), [0.5, 0.5, NAN, 0.7])
    assert same(row(found, "watts"), [300, NAN, NAN, 310])
    assert same(row(found, "busy"), [0.2, 0.2, NAN, 0.2])
    assert same(row(found, "throttled"), [1, 0, NAN, 0])
    assert row(found, "active", "GPU-2") == [0.1] * 4


def test_minutes_from_before_the_rules_were_there() -> None:
    fleet = Fleet()
    fleet.gpu("DEV_GPU_UTIL", [20, 30, 40, 50]).gpu("DEV_POWER_USAGE", [200] * 4)
    assert row(fleet.record("gpu.yml", from_minute=2).signals(), "active") == [0.2, 0.3, 0.4, 0.5]


def test_inference_servers_by_pod() -> None:
    fleet = Fleet()
    pods = (("chat-0", "a:8000", "east", [2, 2, 0, 0, 0]), ("chat-1", "b:8000", "", [0] * 5))
    for pod, instance, cluster, running in pods:
        fleet.tell(
            "trilens_workload_pod_info", [1] * 5, cluster="east", namespace="ml", pod=pod, workload="chat"
        )
        about = {"namespace": "ml", "pod": pod, "job": "vllm", "instance": instance, "model_name": "llama"}
        about |= {"cluster": cluster} if cluster else {}
        fleet.tell("vllm:num_requests_running", running, **about)
        finished = [60.0 if busy else 0.0 for busy in running]
        fleet.tell("vllm:request_success_total", finished, counter=True, finished_reason="stop", **about)
        fleet.tell("vllm:generation_tokens_total", [10 * one for one in finished], counter=True, **about)
    fleet.tell("vllm:num_requests_running", [9] * 5, job="local", instance="c:8000", model_name="tiny")
    found = fleet.record("serving.yml").signals().serving
    assert found.pods.keys() == {("east", "ml", "chat-0"), ("east", "ml", "chat-1")}
    busy, idle = found.pods["east", "ml", "chat-0"], found.pods["east", "ml", "chat-1"]
    assert found.running[busy].tolist() == [2, 2, 0, 0, 0]
    assert found.requests[busy, 1] == pytest.approx(60, rel=0.4)  # a rate over two minutes
    assert found.tokens[busy, 1] == pytest.approx(600, rel=0.4)
    assert found.requests[busy, -1] == found.tokens[busy, -1] == 0
    assert not np.nansum([found.running[idle], found.requests[idle], found.tokens[idle]])


def test_what_cannot_be_asked_is_told() -> None:
    fleet = Fleet().gpu("DEV_GPU_UTIL", [50] * 3)

    class Partly(EmbeddedQueries):
        async def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix:
            if "POWER" in query or "power" in query:
                raise SourceError("out of reach")
            return await super().matrix(query, times, labels)

    found = LedgerSignals(Partly(fleet.source)).signals(HOUR_MS, HOUR_MS + 3 * MINUTE_MS)
    assert found.trouble == ("power could not be asked: out of reach",)
    assert row(found, "active") == [0.5] * 3
    assert same(row(found, "watts"), [NAN] * 3)


class Counted(EmbeddedQueries):
    asked = 0

    async def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix:
        self.asked += 1
        return await super().matrix(query, times, labels)


def test_hours_side_by_side_and_none_asked_twice_in_a_row() -> None:
    fleet = Fleet().gpu("DEV_GPU_UTIL", [40] * 60)
    fleet.tell("DCGM_FI_DEV_GPU_UTIL", [70] * 61, from_minute=59, UUID="GPU-2")
    queries = Counted(fleet.source)
    signals = LedgerSignals(queries)
    found = signals.signals(HOUR_MS, HOUR_MS + 120 * MINUTE_MS)
    assert found.gpus.active.shape == (2, 120)
    first, second = row(found, "active"), row(found, "active", "GPU-2")
    assert same(first, [0.4] * 60 + [NAN] * 60)
    assert same(second, [NAN] * 59 + [0.7] * 61)
    asked = queries.asked
    before = signals.signals(HOUR_MS - 60 * MINUTE_MS, HOUR_MS + 60 * MINUTE_MS)
    assert (
        queries.asked < 2 * asked
    )  # hours are computed from the last to the first, each with the one before
    assert same(row(before, "active"), [NAN] * 60 + [0.4] * 60)


def test_samples_that_lie_together_are_read_together() -> None:
    queries = Counted(Fleet().gpu("DEV_GPU_UTIL", [40] * 60).source)
    signals = LedgerSignals(queries)
    block_ms = HOUR_MS - HOUR_MS % (240 * MINUTE_MS)
    signals.signals(block_ms, block_ms + 60 * MINUTE_MS)
    asked = queries.asked
    for hour in range(1, 4):
        found = signals.signals(block_ms + hour * 60 * MINUTE_MS, block_ms + (hour + 1) * 60 * MINUTE_MS)
        assert found.gpus.from_ms == block_ms + hour * 60 * MINUTE_MS
        assert found.gpus.active.shape == (1, 60)
    assert queries.asked == asked


def test_an_open_hour_asks_once_for_the_hour_before_it() -> None:
    """It is computed every minute. Any other hour is computed of what there is now."""
    fleet, minute = Fleet().gpu("DEV_GPU_UTIL", [40] * 90), 65
    queries = Counted(fleet.source)
    signals = LedgerSignals(
        queries, now_ms=lambda: HOUR_MS + minute * MINUTE_MS, clock_s=lambda: 60.0 * minute
    )

    def asked(*, is_open: bool) -> int:
        before = queries.asked
        found = signals.signals(HOUR_MS, HOUR_MS + minute * MINUTE_MS, is_open=is_open)
        assert same(row(found, "active"), [0.4] * minute)
        return queries.asked - before

    first = asked(is_open=True)
    while minute < 70:
        minute += 1
        assert asked(is_open=True) == first // 2
    assert asked(is_open=False) == first


def test_what_nobody_asks_for_again_is_let_go() -> None:
    clock_s = 0.0
    source = Fleet().gpu("DEV_GPU_UTIL", [40] * 60).source
    signals = LedgerSignals(Counted(source), clock_s=lambda: clock_s)
    signals.signals(HOUR_MS, HOUR_MS + 60 * MINUTE_MS)
    clock_s = 3_600.0
    signals.signals(HOUR_MS + 600 * MINUTE_MS, HOUR_MS + 660 * MINUTE_MS)
    assert len(signals._kept) == 1


def test_a_part_of_a_minute_counts() -> None:
    fleet = Fleet().gpu("DEV_GPU_UTIL", [40] * 3)
    found = LedgerSignals(EmbeddedQueries(fleet.source)).signals(HOUR_MS, HOUR_MS + 2 * MINUTE_MS + 31_000)
    assert row(found, "active") == [0.4] * 3


def test_inference_servers_alone() -> None:
    queries = Counted(MemorySource())
    found = LedgerSignals(queries).serving(HOUR_MS, HOUR_MS + 120 * MINUTE_MS)
    assert (found.serving.requests.shape, found.gpus.active.shape, found.trouble) == ((0, 120), (0, 120), ())
    assert queries.asked == 6


def test_queries_are_asked_in_the_server_s_loop() -> None:
    loop, threads = asyncio.new_event_loop(), []

    class Noted(EmbeddedQueries):
        async def matrix(self, query: str, times: Times, labels: tuple[str, ...]) -> Matrix:
            threads.append(threading.current_thread())
            return await super().matrix(query, times, labels)

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        signals = LedgerSignals(Noted(MemorySource()))
        signals.ask_in(AskedLoop(loop))
        assert signals.signals(HOUR_MS, HOUR_MS + MINUTE_MS).gpus.active.shape == (0, 1)
        assert set(threads) == {thread}
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    with pytest.raises(QueryCancelled, match="the server stops"):
        signals.signals(HOUR_MS - 480 * MINUTE_MS, HOUR_MS - 478 * MINUTE_MS)  # what was asked before is kept
