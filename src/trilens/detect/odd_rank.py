"""Which rank is not where the others wait: by what they said, by how far they are, and by their GPUs.

The first that tells decides. Flight recorders know who is in which collective; a barrier names who did not
come; a rank that is in no collective while most are, or behind in steps, is the one they wait for; and so is
a GPU on which nothing runs while others spin.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.detect.collectives import absent
from trilens.detect.subjects import rank_at
from trilens.model.rank_names import ranks_name
from trilens.model.step_phases import SYNC_PHASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trilens.detect.scene import JobView, RankView, Scene


UNHEARD_MS: Final = 8_000
_MISSED: Final = 4  # heartbeats


class Odd(NamedTuple):
    """Those the others wait for. Both are empty where nothing tells them apart."""

    ranks: tuple[RankView, ...] = ()
    rows: tuple[int, ...] = ()  # of GPUs whose rank nobody knows, or which tell it alone
    node: str | None = None  # where all of them are on one
    why: tuple[str, ...] = ()
    by_note: bool = False  # a rank said so in words
    by_recorder: bool = False  # and in these: what was put into which process group

    @property
    def is_one(self) -> bool:
        return len(self.ranks) == 1 or (not self.ranks and len(self.rows) == 1)


def odd_ones(
    job: JobView, spinning: Sequence[int], resting: Sequence[int], scene: Scene, since_ms: int
) -> Odd:
    """`spinning` and `resting` are rows of its GPUs; notes from before `since_ms` tell of something else."""
    alive = [rank for rank in job.ranks if rank.process is None or rank.process.ending is None]
    gone = absent(job, since_ms)
    if gone is not None:
        return _odd(gone.ranks, gone.said, scene, by_note=True)._replace(by_recorder=True)
    named, said = _by_notes(job, since_ms)
    if named:
        return _odd(named, said, scene, by_note=True)
    silent = _unheard(alive)
    if silent:
        return _odd(
            silent, f"{ranks_name([rank.rank for rank in silent])} is not heard, the others are", scene
        )
    by_gpu = resting if len(resting) < len(spinning) or len(spinning) == len(resting) == 1 else ()
    behind = _fewer(alive, lambda rank: rank.doing not in SYNC_PHASES, _any_waits(alive))
    if behind and by_gpu:  # both tell: those on whom they agree
        agreed = [rank for rank in behind if rank.row in by_gpu]
        behind = agreed or behind
    if not behind:
        lowest = min((_step(rank) for rank in alive), default=-1)
        behind = _fewer(alive, lambda rank: _step(rank) == lowest, bool(alive))
    if behind:
        where = {rank.doing for rank in behind}
        doing = f" in {where.pop()}" if len(where) == 1 and None not in where else ""
        said = f"{ranks_name([rank.rank for rank in behind])}{doing}, not where the others are"
        return _odd(behind, said, scene)
    if by_gpu:
        by_row = {rank.row: rank for rank in job.ranks}
        said = f"nothing runs on {_gpus_name(job, by_gpu, scene)}"
        found = [by_row[row] for row in by_gpu if row in by_row]
        if len(found) == len(by_gpu):
            return _odd(found, said, scene)
        return Odd((), tuple(by_gpu), _one({scene.telemetry.places[row].node for row in by_gpu}), (said,))
    return Odd()


def _odd(ranks: Sequence[RankView], said: str, scene: Scene, *, by_note: bool = False) -> Odd:
    nodes = {_node(rank, scene) for rank in ranks}
    return Odd(tuple(ranks), (), _one(nodes), (said,), by_note)


def _node(rank: RankView, scene: Scene) -> str:
    if rank.process is not None and rank.process.node:
        return rank.process.node
    return scene.telemetry.places[rank.row].node if rank.row is not None else ""


def _one(nodes: Iterable[str]) -> str | None:
    found = set(nodes)
    return (found.pop() or None) if len(found) == 1 else None


def _by_notes(job: JobView, since_ms: int) -> tuple[list[RankView], str]:
    """Ranks that most notes name: missing at a barrier, locked up, or furthest behind."""
    by_rank = {rank.rank: rank for rank in job.ranks}
    named: dict[str, Counter[int]] = {"barrier": Counter(), "frozen": Counter(), "stalled": Counter()}
    for rank in job.ranks:
        for note in rank.notes:
            if note.t_ms < since_ms or note.kind not in named:
                continue
            match note.kind:
                case "barrier":
                    told = note.data.get("missing")
                case "frozen":
                    told = [note.data.get("rank", note.rank)]
                case _:
                    told = note.data.get("furthest_behind")
            if isinstance(told, list | tuple):
                named[note.kind].update(one for one in told if isinstance(one, int) and one in by_rank)
    for kind, votes in named.items():
        most = max(votes.values(), default=0)
        chosen = [by_rank[one] for one, count in sorted(votes.items()) if 2 * count > most]
        if chosen and len(chosen) * 2 <= len(job.ranks):
            return chosen, _NOTES[kind].format(ranks_name([rank.rank for rank in chosen]))
    return [], ""


_NOTES = {
    "barrier": "{} did not come to a barrier",
    "frozen": "{}: no Python code ran in it",
    "stalled": "{} was furthest behind, as the others tell",
}


def _unheard(ranks: Sequence[RankView]) -> list[RankView]:
    """Those that missed several heartbeats while others sent theirs: a locked interpreter sends none."""
    heard_ms = max((rank.heard_ms for rank in ranks), default=0)
    return _fewer(
        ranks,
        lambda rank: (
            rank.process is not None
            and heard_ms - rank.heard_ms > max(UNHEARD_MS, _MISSED * 1000 * rank.process.heartbeat_s)
        ),
        len(ranks) > 1,
    )


def _any_waits(ranks: Sequence[RankView]) -> bool:
    return any(rank.doing in SYNC_PHASES for rank in ranks)


def _fewer(ranks: Sequence[RankView], is_odd: Callable[[RankView], bool], applies: bool) -> list[RankView]:
    """Those, where they are fewer than the others; of two, one."""
    found = [rank for rank in ranks if is_odd(rank)] if applies else []
    return found if 0 < len(found) * 2 <= len(ranks) else []


def _step(rank: RankView) -> int:
    return int(rank.steps.step[-1]) if len(rank.steps) else -1


def _gpus_name(job: JobView, rows: Sequence[int], scene: Scene) -> str:
    ranks = [rank for row in rows if (rank := rank_at(job, scene, row)) is not None]
    if len(ranks) == len(rows):
        return f"the GPU{'s' if len(rows) > 1 else ''} of {ranks_name(ranks)}"
    places = [scene.telemetry.places[row] for row in rows[:4]]
    return ", ".join(f"GPU {place.number} of {place.node}" for place in places)
