"""What the doctor makes of messages that wait, by what /api/receivers says."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

from trilens.serve.checkup.watching import receivers
from trilens.serve.delivery_apis import ReceiverAnswer

if TYPE_CHECKING:
    from trilens.serve.checkup.finding import Finding


def found(waits_s: float | None, **of: Any) -> list[Finding]:
    since_ms = None if waits_s is None else round((time.time() - waits_s) * 1000)
    known: dict[str, Any] = {
        "receiver": "ops",
        "kind": "slack",
        "where": "hooks",
        "state": "ok",
        "waiting": 0 if waits_s is None else 2,
        "waiting_since_ms": since_ms,
        **dict.fromkeys(("sent", "failed", "refused", "dropped"), 0),
        **dict.fromkeys(("last_ok_ms", "last_error_ms", "last_error", "next_try_ms")),
    }
    answer = ReceiverAnswer(**{**known, **of})
    return list(receivers(cast("Any", SimpleNamespace(receivers=[msgspec.to_builtins(answer)]))))


@pytest.mark.parametrize("waits_s", [None, 0, 14 * 60])
def test_messages_that_came_a_moment_ago_may_wait(waits_s: float | None) -> None:
    assert found(waits_s) == []


@pytest.mark.parametrize(
    ("waits_s", "what"), [(16 * 60, "16 minutes"), (119 * 60, "119 minutes"), (50 * 3600, "50 hours")]
)
@pytest.mark.parametrize("state", ["ok", "idle"])
def test_one_that_has_waited_long_is_told_though_no_try_has_failed(
    waits_s: float, what: str, state: str
) -> None:
    (one,) = found(waits_s + 1, state=state)
    assert one.is_problem
    assert one.what == f"ops (slack, hooks): 2 messages waiting, the oldest for {what}"
    assert "trilens receivers test ops" in one.remedy


def test_of_one_that_fails_it_is_told_how_long_messages_wait() -> None:
    (one,) = found(3 * 3600 + 1, state="failing", last_error="refused")
    assert one.means == "nobody is told by it; messages that wait: 2, the oldest for 3 hours, refused: 0"


def test_one_that_refuses_and_is_late_is_told_as_both() -> None:
    assert [one.is_problem for one in found(3600, refused=1, last_error="HTTP 400")] == [True, False]
