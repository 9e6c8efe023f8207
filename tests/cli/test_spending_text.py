"""What `trilens runs show` and `trilens show` say of cost: two lines, or why it is not known, or nothing."""

from __future__ import annotations

import msgspec
import pytest

from ledger_nights import NIGHT_MS, holder, hour, row
from memory_book import MemoryBook
from trilens.cli.spending_text import show_spending
from trilens.ledger.answers.spending import run_spending
from trilens.model.ledger import HOUR_MS, Basis, Bucket, LedgerHour
from trilens.model.run import RankProcess, RunId, WriterId
from trilens.serve.money.spending_answer import spending_answer

RUN = RunId("run-1")
NOW_MS = NIGHT_MS + 2 * HOUR_MS - 60_000


def booked(at: int, *, price: int | None = 4 * 10**9, basis: Basis = Basis.STEPS) -> LedgerHour:
    hour_ms, whose = NIGHT_MS + at * HOUR_MS, holder("train", "vision", RUN)
    return hour(
        hour_ms,
        row(hour_ms, whose, Bucket.PRODUCTIVE, gpus=64, ms=HOUR_MS // 4, price=price, basis=basis),
        row(hour_ms, whose, Bucket.STALLED, gpus=64, ms=HOUR_MS * 3 // 4, price=price),
        upto_ms=min(hour_ms + HOUR_MS, NOW_MS),
    )


WENT = "stalled 75 %, productive 25 %"


@pytest.mark.parametrize(
    ("hours", "to_h", "lines"),
    [
        pytest.param(
            [booked(0)],
            1,
            ["  cost $256.00, $192.00 of it for nothing", f"  64.0 GPU-hours, goodput 25 %: {WENT}"],
            id="over",
        ),
        pytest.param(
            [booked(0), booked(1)],
            None,
            ["  cost $512.00 so far, $384.00 of it for nothing", f"  128.0 GPU-hours, goodput 25 %: {WENT}"],
            id="open",
        ),
        pytest.param(
            [booked(0, price=None)],
            1,
            [
                "  cost unknown, no-price: 64.0 of its 64.0 GPU-hours have no price; trilens cost names what "
                "has none; write it into the price book",
                f"  64.0 GPU-hours, goodput 25 %: {WENT}",
            ],
            id="unpriced",
        ),
        pytest.param(
            [booked(0, basis=Basis.NONE)],
            1,
            [
                "  cost $256.00, $192.00 of it for nothing",
                f"  64.0 GPU-hours, goodput 0 % of the 75 % that some signal told of: {WENT}",
            ],
            id="untold",
        ),
        pytest.param(
            [booked(1)],
            None,
            [
                "  cost unknown, hours-not-booked: 1 of its 2 hours are not booked; trilens ledger hours "
                "shows those that are, trilens cost adds them up"
            ],
            id="in part",
        ),
        pytest.param([], 1, [], id="not at all"),
    ],
)
def test_what_is_said(
    hours: list[LedgerHour], to_h: int | None, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    ended_ms = NIGHT_MS + to_h * HOUR_MS if to_h is not None else None
    process = RankProcess(RUN, 0, WriterId("w"), NIGHT_MS, ended_ms=ended_ms)
    spent = spending_answer(run_spending(MemoryBook(*hours), [process], NOW_MS))
    show_spending(msgspec.to_builtins(spent))
    assert capsys.readouterr().out.splitlines() == lines
