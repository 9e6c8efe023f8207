"""The policy in force, and what it says to a deed as the cluster is now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.diagnose.cure.decisions import decide, over_budget, refusal
from trilens.model.errors import RequestError
from trilens.model.fix import Deed

if TYPE_CHECKING:
    from trilens.diagnose.cure.change import Json
    from trilens.diagnose.cure.decisions import Decision
    from trilens.model.fix import Fix
    from trilens.serve.cure.clusters import CuredClusters
    from trilens.settings.cure import CurePolicy


class Permission:
    def __init__(self, policy: CurePolicy | None, clusters: CuredClusters) -> None:
        """Without a policy nothing may be done. `policy` may be replaced at any time, from any thread."""
        self.policy = policy
        self._clusters = clusters

    async def refusal(self, fix: Fix, now: Json) -> str:
        return refusal(self.policy, fix, now, await self._closed(fix))

    async def check(self, fix: Fix, now: Json) -> None:
        if refused := await self.refusal(fix, now):
            raise RequestError(refused)

    async def decision(self, fix: Fix, now: Json, *, fault_ms: int, now_ms: int) -> Decision:
        return decide(self.policy, fix, now, await self._closed(fix), fault_ms=fault_ms, now_ms=now_ms)

    async def overrun(self, fix: Fix) -> str:
        """Asked when a cordon is done: another server may have done one at the same time. Each looks after
        its own deed, so of two at least one sees both."""
        return over_budget(self.policy, await self._closed(fix)) if self.policy is not None else ""

    async def _closed(self, fix: Fix) -> frozenset[str]:
        return await self._clusters.closed_besides(fix.target) if fix.deed is Deed.CORDON else frozenset()
