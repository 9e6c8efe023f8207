"""What /api/fixes answers, as types: the OpenAPI schema is made from them."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read when the schema is made
from typing import TYPE_CHECKING, Any

import msgspec

from trilens.diagnose.cure.changes import undo_deed
from trilens.model.fix import FixState

if TYPE_CHECKING:
    from trilens.diagnose.cure.proposals import Proposal
    from trilens.model.fix import Fix, FixTarget


class TargetAnswer(msgspec.Struct, frozen=True):
    cluster: str
    group: str
    kind: str
    namespace: str
    name: str


class FixAnswer(msgspec.Struct, frozen=True):
    """One deed: who wanted it, why, what was before and after, and what came of it."""

    id: str
    t_ms: int
    deed: str
    target: TargetAnswer
    state: str
    by: str
    approved_by: str
    why: str
    source: str
    held_back: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    result: str
    ended_ms: int | None
    undo: str  # the deed that takes it back; "" where nothing does
    undo_of: str
    undone_by: str


class ProposalAnswer(msgspec.Struct, frozen=True):
    """What could be done; `subject` and `deed` are what a POST to /api/fixes takes."""

    deed: str
    subject: str
    target: TargetAnswer
    why: str
    source: str
    confidence: float


def fix_answer(fix: Fix, *, can_undo: bool = True) -> FixAnswer:
    is_there = fix.state is FixState.DONE and not fix.undone_by
    undo = undo_deed(fix) if can_undo and is_there else None
    return FixAnswer(
        fix.id,
        fix.t_ms,
        fix.deed.value,
        _target(fix.target),
        fix.state.value,
        fix.by,
        fix.approved_by,
        fix.why,
        fix.source,
        fix.held_back,
        fix.before,
        fix.after,
        fix.result,
        fix.ended_ms,
        undo[0].value if undo is not None else "",
        fix.undo_of,
        fix.undone_by,
    )


def proposal_answer(proposal: Proposal) -> ProposalAnswer:
    return ProposalAnswer(
        proposal.deed.value,
        written(proposal.target),
        _target(proposal.target),
        proposal.why,
        proposal.source,
        proposal.confidence,
    )


def _target(target: FixTarget) -> TargetAnswer:
    return TargetAnswer(target.cluster, target.group, target.kind, target.namespace, target.name)


def written(target: FixTarget) -> str:
    """The whole name, which is never ambiguous."""
    if not target.namespace:
        return f"{target.cluster}/node/{target.name}"
    kind = f"{target.kind}.{target.group}" if target.group else target.kind
    kind = "pod" if kind == "Pod" else kind
    return f"{target.cluster}/{target.namespace}/{kind}/{target.name}"
