"""What a policy says to a deed, by what is known of the cluster. Pure: who asks the cluster is elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.diagnose.cure.changes import change_of
from trilens.model.fix import Deed

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trilens.model.fix import Fix
    from trilens.settings.cure import CurePolicy

FRESH_MS: Final = 600_000  # of an older fault nobody knows whether it still is so: people decide


class Say(Enum):
    DO = "do"
    WAIT = "wait"  # for somebody to approve it
    LEAVE = "leave"  # nothing is to be done, and nothing to be decided


class Decision(NamedTuple):
    say: Say
    why: str = ""


def refusal(policy: CurePolicy | None, fix: Fix, now: Mapping[str, Any], closed: Collection[str]) -> str:
    """Why a person may not do it; "" where nothing stands against it.

    `now` is the object as it is, `closed` are the other nodes of that cluster that Trilens has closed.
    """
    if policy is None:
        return "nothing may be changed: name a policy in cure.policy"
    if not policy.allows(fix.deed, fix.target, labels_of(now)):
        return f"the policy does not allow {fix.deed} of {fix.target}: add it under allow"
    return over_budget(policy, closed) if fix.deed is Deed.CORDON else ""


def decide(
    policy: CurePolicy | None,
    fix: Fix,
    now: dict[str, Any],
    closed: Collection[str],
    *,
    fault_ms: int,
    now_ms: int,
) -> Decision:
    """Whether the server itself cordons upon a fault of that time. Arguments as in `refusal`."""
    if policy is None or not policy.allows(fix.deed, fix.target, labels_of(now)):
        return Decision(Say.LEAVE, "the policy does not let it be cordoned")
    if now_ms - fault_ms > FRESH_MS:
        return Decision(Say.LEAVE, "the fault is too old")
    if change_of(fix, now).done_already:
        return Decision(Say.LEAVE, "it is cordoned already")
    if fix.fault not in policy.approved_classes:
        return Decision(Say.WAIT, f"{fix.fault} is not approved beforehand")
    if policy.is_quiet(now_ms):
        return Decision(Say.WAIT, "it is a quiet time")
    if (made_ms := _made_ms(now)) is not None and made_ms > fault_ms:
        return Decision(Say.WAIT, "the node was made anew after the fault")
    if over := over_budget(policy, closed):
        return Decision(Say.WAIT, over)
    return Decision(Say.DO)


def over_budget(policy: CurePolicy, closed: Collection[str]) -> str:
    """Of one node more; "" where there is room for it."""
    if len(closed) < policy.max_nodes:
        return ""
    names = ", ".join(sorted(closed)) or "none"
    return f"at most {policy.max_nodes} nodes may be cordoned at once; cordoned now: {names}"


def labels_of(now: Mapping[str, Any]) -> dict[str, str]:
    found = (now.get("metadata") or {}).get("labels")
    return found if isinstance(found, dict) else {}


def _made_ms(now: Mapping[str, Any]) -> int | None:
    """Kubernetes tells it in whole seconds, rounded down."""
    text = (now.get("metadata") or {}).get("creationTimestamp")
    try:
        made = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return round(made.replace(tzinfo=made.tzinfo or UTC).timestamp() * 1000)
