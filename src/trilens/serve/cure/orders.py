"""What people want done: tried out, done, approved, taken back."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

from trilens.diagnose.cure.changes import change_of, check_target, is_done, undo_deed
from trilens.model.errors import NotFound, RequestError
from trilens.model.fix import NODE_DEEDS, Fix, FixState, fix_id
from trilens.serve.cure.deeds import already
from trilens.serve.cure.told import Told

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from trilens.diagnose.cure.change import Json
    from trilens.serve.cure.book import FixBook
    from trilens.serve.cure.clusters import CuredClusters
    from trilens.serve.cure.deeds import Deeds
    from trilens.serve.cure.permission import Permission


class Orders:
    """Belongs to one event loop."""

    def __init__(
        self,
        clusters: CuredClusters,
        permission: Permission,
        book: FixBook,
        deeds: Deeds,
        one_at_a_time: asyncio.Lock,
        clock_ms: Callable[[], int],
    ) -> None:
        """`one_at_a_time` is held by whoever does something to a node."""
        self._clusters = clusters
        self._permission = permission
        self._book = book
        self._deeds = deeds
        self._one_at_a_time = one_at_a_time
        self._clock_ms = clock_ms

    async def dry_run(self, told: Told) -> Fix:
        fix, now = await self._looked_at(told)
        change = change_of(fix, now)
        notes = await self._deeds.try_out(fix, change)
        if refused := await self._permission.refusal(fix, now):
            notes.append(refused)
        result = "; ".join(notes)
        return replace(fix, state=FixState.DRY_RUN, before=change.before, after=change.after, result=result)

    async def do(self, told: Told) -> Fix:
        # What may take long, waiting for budgets of pods or for operators, must not delay a cordon.
        async with self._one_at_a_time if told.deed in NODE_DEEDS else nullcontext():
            fix, now = await self._looked_at(told)
            await self._permission.check(fix, now)
            if (change := change_of(fix, now)).done_already:
                raise RequestError(f"{fix.target}: {already(change)}")
            return await self._deeds.carry_out(fix, patience_s=told.patience_s)

    async def approve(self, id: str, by: str) -> Fix:
        async with self._one_at_a_time:
            fix = await self._book.get(id)
            if fix.state is not FixState.WAITING:
                raise RequestError(f"{id} does not wait for approval: it is {fix.state}")
            drop = f"trilens fix undo {id} drops it"
            try:
                now = await self._clusters.of(fix.target).get(fix.target)
            except NotFound as e:
                raise NotFound(e.message, hint=drop) from e
            await self._permission.check(fix, now)
            if (change := change_of(fix, now)).done_already:
                raise RequestError(f"{fix.target}: {already(change)}", hint=drop)
            return await self._deeds.carry_out(replace(fix, approved_by=by or "somebody"))

    async def undo(self, id: str, by: str) -> Fix:
        async with self._one_at_a_time:
            fix = await self._book.get(id)
            if fix.state is FixState.WAITING:  # it is not wanted
                rejected = replace(fix, result=f"rejected by {by or 'somebody'}")
                return self._book.end(rejected, FixState.DROPPED)
        if fix.state is not FixState.DONE:
            raise RequestError(f"{id} was not done: it is {fix.state}")
        if fix.undone_by:
            raise RequestError(f"{id} was taken back already, by {fix.undone_by}")
        deed = undo_deed(fix)
        if deed is None:
            raise RequestError(f"a {fix.deed} cannot be taken back")
        if not is_done(fix, await self._clusters.of(fix.target).get(fix.target)):
            raise RequestError(f"{fix.target} is not as {id} left it: somebody has changed it since")
        done = await self.do(
            Told(deed[0], fix.target, by, f"takes back {id}", fix.source, deed[1], undo_of=id)
        )
        if done.state is FixState.DONE:
            self._book.undone(fix, done.id)
        return done

    async def _looked_at(self, told: Told) -> tuple[Fix, Json]:
        check_target(told.deed, told.target)
        now_ms = self._clock_ms()
        fix = Fix(
            fix_id("told", now_ms, told.deed, told.target, told.by),
            now_ms,
            told.deed,
            told.target,
            told.by,
            told.why,
            told.source,
            FixState.BEGUN,
            value=told.value,
            undo_of=told.undo_of,
        )
        return fix, await self._clusters.of(told.target).get(told.target)
