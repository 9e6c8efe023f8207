"""What the reader of logs takes an Xid for is what the catalogue says of it."""

from __future__ import annotations

import pytest

from trilens.diagnose.logs.cause import judge_logs
from trilens.diagnose.logs.reading import LogSource, read_logs
from trilens.diagnose.logs.signs import Depth, Kind, Sign, log_classes
from trilens.model.verdict import TELL_FROM, Layer
from trilens.model.xid import FOLLOWERS, XIDS, Asks, Fault


def _line(code: int) -> str:
    return f"NVRM: Xid (PCI:0000:4e:00): {code}, pid=2034, name=python"


def _sign(code: int) -> Sign:
    (hit,) = read_logs([LogSource("kernel.log", [_line(code)])]).hits.values()
    return hit.sign


@pytest.mark.parametrize("code", [code for code, one in XIDS.items() if one.asks is Asks.NOTHING])
def test_a_record_stops_nothing(code: int) -> None:
    assert _sign(code).kind is Kind.WARNS
    assert judge_logs([LogSource("kernel.log", [_line(code)])]).confidence < TELL_FROM


@pytest.mark.parametrize("code", [code for code, one in XIDS.items() if one.fault is Fault.APPLICATION])
def test_what_a_program_did_is_not_the_gpus_fault(code: int) -> None:
    sign = _sign(code)
    assert sign.kind is Kind.FOLLOWS or log_classes()[sign.cause].layer is Layer.PROGRAM


@pytest.mark.parametrize(
    "code",
    [
        code
        for code, one in XIDS.items()
        if one.fault in (Fault.HARDWARE, Fault.DRIVER, Fault.LINK) and one.asks is not Asks.NOTHING
    ],
)
def test_what_the_gpu_or_its_links_did_is_not_the_programs_fault(code: int) -> None:
    sign = _sign(code)
    assert sign.kind is Kind.ROOT
    assert log_classes()[sign.cause].depth is Depth.HARDWARE
    assert (sign.cause == "nvlink-error") is (XIDS[code].fault is Fault.LINK)


def test_a_code_that_the_catalogue_does_not_know_still_counts() -> None:
    assert _sign(max(XIDS) + 1).cause == "gpu-fault"


@pytest.mark.parametrize("code", sorted(FOLLOWERS))
def test_what_never_comes_first_is_no_cause(code: int) -> None:
    assert _sign(code).kind is Kind.FOLLOWS


def test_a_row_that_was_noted_for_remapping_is_not_why_a_program_ended() -> None:
    """63 is a record: a job goes on with it."""
    raised = [
        "Traceback (most recent call last):",
        '  File "/ws/train.py", line 7, in main',
        "KeyError: 'text'",
    ]
    verdict = judge_logs([LogSource("kernel.log", [_line(63)]), LogSource("rank0.log", raised)])
    assert (verdict.cause, verdict.who.rank) == ("exception", 0)


def test_beside_a_memory_error_a_record_says_nothing_new() -> None:
    verdict = judge_logs([LogSource("kernel.log", [_line(63), _line(48), _line(63)])])
    assert (verdict.cause, verdict.number) == ("gpu-memory-error", 2)
