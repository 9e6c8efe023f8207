"""What ranks tell, written together: a commit of a few records takes as long as one of thousands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.model.run_commit import RunCommit

if TYPE_CHECKING:
    from trilens.store.runs import RunRecords


class MergedRuns:
    """A sink of runs; all but what is told is the store's own. Not thread-safe."""

    def __init__(self, runs: RunRecords) -> None:
        self._runs = runs
        self._held = RunCommit()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)

    def commit(self, commit: RunCommit) -> None:
        for name in RunCommit.__slots__:
            getattr(self._held, name).extend(getattr(commit, name))

    def flush(self) -> None:
        held, self._held = self._held, RunCommit()
        held.facts = list({one.run: one for one in held.facts}.values())
        held.processes = list({(one.run, one.rank, one.writer): one for one in held.processes}.values())
        held.positions = list({(one.run, one.rank, one.writer): one for one in held.positions}.values())
        if held.positions or held.processes:
            self._runs.commit(held)
