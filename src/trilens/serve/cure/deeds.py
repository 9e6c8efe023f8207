"""Carries deeds out: the intent first, then the deed, then what came of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trilens.diagnose.cure.change import read_at
from trilens.diagnose.cure.changes import TAKEN_BACK, change_of, left_by
from trilens.diagnose.cure.restarts import says_suspended
from trilens.model.errors import KubeApiError, RequestError, TrilensError
from trilens.model.fix import NODE_DEEDS, Deed, FixState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.collect.kubernetes.writes import ObjectWrites
    from trilens.diagnose.cure.change import Change, Json
    from trilens.model.fix import Fix, FixTarget
    from trilens.serve.cure.book import FixBook
    from trilens.serve.cure.clusters import CuredClusters
    from trilens.serve.cure.permission import Permission

_NOTED_S: Final = 20.0  # for so long an operator is given to note that its workload is suspended
_LOOK_S: Final = 0.5
_EVICT_AGAIN_S: Final = 2.0
_TRIES: Final = 5
_CONFLICT: Final = 409  # somebody has changed it since it was read
_AS_READ: Final = NODE_DEEDS | {Deed.ANNOTATE}  # what is done only to an object as it was read


class Deeds:
    def __init__(self, clusters: CuredClusters, book: FixBook, permission: Permission) -> None:
        self._clusters = clusters
        self._book = book
        self._permission = permission

    async def try_out(self, fix: Fix, change: Change) -> list[str]:
        """The API server checks it and changes nothing; what stands against it now."""
        cluster, target = self._clusters.of(fix.target), fix.target
        if change.done_already:
            return [already(change)]
        if fix.deed is Deed.EVICT:
            refusal = await cluster.evict(target, str(change.before["uid"]), dry_run=True)
            return [f"refused now: {refusal.text}"] if refusal is not None else []
        if change.patch is None:
            await cluster.delete(target, str(change.before["uid"]), dry_run=True)
            return []
        if change.command is not None:
            await cluster.command(target, change.command, dry_run=True)
        _check_known(change, await cluster.patch(target, change.patch, dry_run=True), target)
        return []

    async def carry_out(self, fix: Fix, *, patience_s: float = 0.0) -> Fix:
        """Raises KubeApiError where the API server does not answer and nobody but the server itself wants it:
        the intent stays, and is taken up again."""
        cluster = self._clusters.of(fix.target)
        for left in reversed(range(_TRIES)):
            try:
                change = change_of(fix, await cluster.get(fix.target))
                if change.done_already:  # somebody else was faster
                    return self._book.end(replace(fix, result=already(change)), FixState.DROPPED)
                fix = replace(fix, state=FixState.BEGUN, before=change.before)
                if not await self._book.begin(fix):
                    result = "not done: the intent could not be written down, is the disk full?"
                    return self._book.end(replace(fix, result=result), FixState.FAILED)
                fix = await self._changed(cluster, fix, change, patience_s)
            except KubeApiError as e:
                if e.status == _CONFLICT and fix.deed in _AS_READ and left:
                    continue
                if fix.is_servers_own and (e.status is None or e.status >= 500):
                    raise
                doubt = "; whether it was done is not known" if e.status is None else ""
                return self._book.end(replace(fix, result=f"{e}{doubt}"), FixState.FAILED)
            except TrilensError as e:
                return self._book.end(replace(fix, result=str(e)), FixState.FAILED)
            return await self._within_budget(cluster, fix)
        raise AssertionError("the last try ends in one way or the other")

    async def _within_budget(self, cluster: ObjectWrites, fix: Fix) -> Fix:
        if fix.deed is not Deed.CORDON or not (over := await self._overrun(fix)):
            return self._book.end(fix, FixState.DONE)
        try:
            await cluster.patch(fix.target, TAKEN_BACK, dry_run=False)
        except TrilensError as e:
            return self._book.end(replace(fix, result=f"{over}; it stays cordoned: {e}"), FixState.DONE)
        if fix.is_servers_own:
            return self._book.wait(fix, over)
        result = f"taken back at once, as another was cordoned at the same time: {over}"
        return self._book.end(replace(fix, result=result), FixState.FAILED)

    async def _overrun(self, fix: Fix) -> str:
        try:
            return await self._permission.overrun(fix)
        except TrilensError:  # the nodes were counted before, too
            return ""

    async def _changed(self, cluster: ObjectWrites, fix: Fix, change: Change, patience_s: float) -> Fix:
        target = fix.target
        if change.patch is None:
            return await self._ended_pod(cluster, fix, str(change.before["uid"]), patience_s)
        if change.command is not None:
            await cluster.command(target, change.command, dry_run=False)
        _check_known(change, await cluster.patch(target, change.patch, dry_run=False), target)
        if change.then is not None:
            fix = replace(fix, result=await _resumed(cluster, target, change.then))
        return replace(fix, after=change.after)

    async def _ended_pod(self, cluster: ObjectWrites, fix: Fix, uid: str, patience_s: float) -> Fix:
        if fix.deed is Deed.DELETE_POD:
            await cluster.delete(fix.target, uid, dry_run=False)
            return replace(fix, after=left_by(fix))
        until = time.monotonic() + patience_s
        while (refusal := await cluster.evict(fix.target, uid, dry_run=False)) is not None:
            wait_s = refusal.retry_after_s or _EVICT_AGAIN_S
            if time.monotonic() + wait_s > until:
                raise KubeApiError(f"refused: {refusal.text}", status=429)
            await asyncio.sleep(wait_s)
        return replace(fix, after=left_by(fix))


async def _resumed(cluster: ObjectWrites, target: FixTarget, resume: Json) -> str:
    """However it went: what was suspended here never stays so."""
    noted = False
    try:
        until = time.monotonic() + _NOTED_S
        while not noted and time.monotonic() < until:
            noted = says_suspended(await cluster.get(target))
            if not noted:
                await asyncio.sleep(_LOOK_S)
    finally:
        await cluster.patch(target, resume, dry_run=False)
    if noted:
        return "suspended and resumed"
    return f"suspended and resumed; its operator did not note that in {_NOTED_S:g} s: look at its pods"


def already(change: Change) -> str:
    return f"it is so already: {change.after}"


def _check_known(change: Change, answered: Mapping[str, Any], target: FixTarget) -> None:
    """An API server drops what it does not know without a word: a Job before 1.21 cannot be suspended."""
    if change.watched and read_at(dict(answered), change.watched) is not True:
        field = ".".join(change.watched)
        raise RequestError(f"{target} cannot be suspended: its API has no {field}", hint="delete its pods")
