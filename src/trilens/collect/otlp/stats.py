"""What became of what was sent by OTLP, counted since start."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class OtlpMetricsStats:
    requests: int = 0
    points: int = 0
    points_refused: int = 0
    samples_left_out: int = 0


@dataclass(slots=True)
class OtlpTraceStats:
    requests: int = 0
    steps: int = 0
    checkpoints: int = 0
    phases: int = 0
    repeated: int = 0  # steps that were taken before
    not_kept: int = 0  # spans that are nothing of training
    refused: int = 0
