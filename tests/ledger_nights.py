"""Hours of a small fleet, with what goes wrong in a night, for tests of what is asked of the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trilens.ledger import causes
from trilens.model.ledger import HOUR_MS, Basis, Bucket, Holder, LedgerHour, LedgerRow, NodeBill, Warned
from trilens.model.run import RunId
from trilens.model.workload import Doubt, WorkloadKey

NIGHT_MS = 1_793_750_400_000  # 2026-11-04T00:00:00Z
PRICE = 4_000_000_000  # quanta of a GPU-hour


def workload(name: str, namespace: str = "ml") -> WorkloadKey:
    return WorkloadKey("east", namespace, "kubeflow.org", "PyTorchJob", name, f"uid-{name}")


def holder(name: str, team: str | None, run: str | None = None, experiment: str | None = None) -> Holder:
    return Holder(
        workload(name), 0, "ml", RunId(run) if run is not None else None, experiment, team, None, None
    )


def row(
    hour_ms: int,
    whose: Holder,
    bucket: Bucket,
    *,
    gpus: int = 1,
    ms: int = HOUR_MS,
    price: int | None = PRICE,
    currency: str = "USD",
    **more: Any,
) -> list[LedgerRow]:
    """`gpus` alike, each for `ms`."""
    node = more.pop("node", "gpu-01")
    told = {
        "cause": causes.STEPS,
        "since_ms": None,
        "step": None,
        "basis": Basis.NODE if bucket.is_fleet else Basis.STEPS,
        "throttled_ms": 0,
    } | more
    return [
        LedgerRow(
            hour_ms=hour_ms,
            cluster="east",
            node=node,
            gpu=f"GPU-{whose.run or bucket.value}-{number}",
            model="NVIDIA H100 80GB HBM3",
            purchase="on-demand",
            region="us-east-1",
            holder=whose,
            bucket=bucket,
            gpu_ms=ms,
            quanta=ms * price // HOUR_MS if price is not None else None,
            currency=currency if price is not None else "",
            doubts=(),
            **told,
        )
        for number in range(gpus)
    ]


def hour(hour_ms: int, *rows: list[LedgerRow], upto_ms: int | None = None) -> LedgerHour:
    every = [one for some in rows for one in some]
    unpriced = sum(one.gpu_ms for one in every if one.quanta is None)
    doubt = Doubt("no-price", "no price for NVIDIA L4", "write one into the price book")
    return LedgerHour(
        hour_ms,
        upto_ms if upto_ms is not None else hour_ms + HOUR_MS,
        tuple(every),
        (),
        (Warned(doubt, unpriced),) if unpriced else (),
        "book-1",
    )


def first_hour(hour_ms: int, there_ms: int, *rows: list[LedgerRow]) -> LedgerHour:
    """Of which only the last `there_ms` were known: the server began then."""
    quanta = sum(one.quanta or 0 for some in rows for one in some)
    gpu_ms = sum(one.gpu_ms for some in rows for one in some)
    bill = NodeBill(
        hour_ms, "east", "gpu-01", there_ms, gpu_ms, quanta, there_ms, "USD", {"gpu": quanta}, "h100"
    )
    return replace(hour(hour_ms, *rows), bills=(bill,))


def billed(hour: LedgerHour) -> LedgerHour:
    """With a bill for each of its nodes, as an hour that was computed has it."""
    nodes = dict.fromkeys((row.cluster, row.node) for row in hour.rows)
    there_ms = hour.upto_ms - hour.hour_ms
    bills = [NodeBill(hour.hour_ms, *node, there_ms, 0, 0, there_ms, "USD", {}, "h100") for node in nodes]
    return replace(hour, bills=tuple(bills))


def a_night() -> list[LedgerHour]:
    """Six hours before midnight and six after. From 01:12 on 64 GPUs of vision stall; research loses what it
    did after a checkpoint, and waits for data; four GPUs are free, a node is not ready, a service without a
    price serves."""
    vision = holder("vision-finetune-1", "vision", "run-v", "finetune")
    research = holder("llm-pretrain", "research", "run-r", "pretrain")
    chat = holder("chat", None)
    fleet = Holder()
    stalled_ms = NIGHT_MS + HOUR_MS + 12 * 60_000
    hours = []
    for number in range(-6, 6):
        at = NIGHT_MS + number * HOUR_MS
        stuck_ms = min(HOUR_MS, max(0, at + HOUR_MS - stalled_ms))
        rows = [
            row(at, vision, Bucket.PRODUCTIVE, gpus=64, ms=HOUR_MS - stuck_ms) if stuck_ms < HOUR_MS else [],
            row(
                at,
                vision,
                Bucket.STALLED,
                gpus=64,
                ms=stuck_ms,
                cause=causes.NO_STEP,
                since_ms=stalled_ms,
                step=8_320,
            )
            if stuck_ms
            else [],
            row(at, research, Bucket.PRODUCTIVE, gpus=8, ms=HOUR_MS * 3 // 4, throttled_ms=360_000),
            row(at, research, Bucket.DATA_WAIT, gpus=8, ms=HOUR_MS // 4),
            row(at, chat, Bucket.SERVING_BUSY, gpus=2, price=None, cause=causes.REQUESTS, basis=Basis.LOAD),
            row(at, fleet, Bucket.UNALLOCATED, gpus=4, cause=causes.FREE, node="gpu-02"),
        ]
        if number >= 3:
            rows.append(
                row(
                    at,
                    fleet,
                    Bucket.BROKEN,
                    gpus=8,
                    cause=causes.NOT_READY,
                    since_ms=NIGHT_MS + 3 * HOUR_MS,
                    node="gpu-07",
                )
            )
        if number == 2:
            rows.append(
                row(
                    at,
                    holder("ablation", "research", "run-a"),
                    Bucket.RECOMPUTE,
                    gpus=8,
                    cause=causes.LOST_WORK,
                    since_ms=at,
                    step=4_001,
                )
            )
        hours.append(hour(at, *rows))
    return hours
