"""What stands in the way of a job that has stopped: which rank, and what it waits for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.fates import Fate
from trilens.detect.scene import Figure
from trilens.detect.wording import rank_name, seconds
from trilens.model.rank_names import ranks_name
from trilens.model.step_phases import DATA_PHASES, SYNC_PHASES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.detect.scene import JobView, RankView, Scene

_NOTE_MS: Final = 60_000
_HUNG_POWER: Final = 0.5  # of what a GPU took while steps were made
_HUNG_UTILIZATION: Final = 0.9


class Verdict(NamedTuple):
    cause: str
    rank: RankView | None
    node: str | None
    confidence: float
    evidence: tuple[str, ...] = ()


class Standing(NamedTuple):
    """A job at this moment."""

    alive: list[RankView]
    missing: list[tuple[RankView, Fate]]
    stuck: list[RankView]  # of those alive
    onset_ms: int


def is_no_pause(standing: Standing, limit_ms: float) -> bool:
    """Whether something tells that nobody saves or validates: a rank is gone or locked, or those that are
    late have waited for data all the while."""
    if any(fate is not Fate.UNHEARD for _, fate in standing.missing):
        return True
    late = _odd_one(standing.alive) or standing.stuck
    return bool(late) and all(
        rank.doing in DATA_PHASES
        and rank.doing_since_ms is not None
        and rank.heard_ms - rank.doing_since_ms > limit_ms / 2
        for rank in late
    )


def is_sharper(new: Verdict, than: Verdict) -> bool:
    """A rank that is not where the others wait may turn out to be gone, or locked: that takes heartbeats."""
    if not _is_sharp(than):
        return _is_sharp(new)
    is_same = new.rank is not None and than.rank is not None and new.rank.rank == than.rank.rank
    return is_same and than.cause == "collective" and new.cause in _KNOWN_FATES


def _is_sharp(verdict: Verdict) -> bool:
    return verdict.cause != "unknown" and (verdict.rank is not None or verdict.cause == "data")


_OF_FATE: Final[Mapping[Fate, tuple[str, float]]] = {
    Fate.FROZEN: ("gil-held", 0.85),
    Fate.NODE_GONE: ("node-gone", 0.9),
    Fate.DEAD: ("process-dead", 0.95),
    Fate.FAILED: ("process-dead", 0.95),
    Fate.UNKNOWN: ("process-dead", 0.6),  # or frozen: nothing is there to tell by
    Fate.LEFT: ("process-dead", 0.8),
    Fate.UNHEARD: ("unknown", 0.6),
}


_KNOWN_FATES: Final = frozenset({"gil-held", "node-gone", "process-dead"})


def verdict_of(job: JobView, standing: Standing, scene: Scene) -> Verdict:
    frozen = _frozen(job, standing.onset_ms)
    if frozen is not None:
        return Verdict("gil-held", frozen, None, 0.95, (f"{rank_name(frozen)}: no Python code ran in it",))
    order = list(_OF_FATE)
    missing = sorted(standing.missing, key=lambda one: (order.index(one[1]), one[0].heard_ms))
    if missing:
        first, fate = missing[0]
        cause, confidence = _OF_FATE[fate]
        same = [one for one, other in missing if other is fate]
        silent = seconds(scene.now_ms - first.heard_ms)
        said = f"{rank_name(first)} was last heard {silent} ago: {_FATES[fate]}"
        return Verdict(cause, first if len(same) == 1 else None, node_of(same), confidence, (said,))
    behind = _odd_one(standing.alive)
    where = {rank.doing for rank in (behind or standing.stuck)}
    node = node_of(behind)
    rank = behind[0] if len(behind) == 1 else None
    if where and where <= set(DATA_PHASES):
        return Verdict("data", rank, node, 0.95)
    waiting = [one for one in standing.alive if one.doing in SYNC_PHASES]
    if len(waiting) * 2 > len(standing.alive) or _looks_hung(job, scene, standing.onset_ms):
        return Verdict("collective", rank, node, 0.9 if rank is not None else 0.8)
    return Verdict("unknown", rank, node, 0.8)


def _frozen(job: JobView, onset_ms: int) -> RankView | None:
    """A rank of which it was said that its interpreter was locked, since this began."""
    by_rank = {rank.rank: rank for rank in job.ranks}
    for rank in job.ranks:
        for note in rank.notes:
            if note.kind == "frozen" and note.t_ms >= onset_ms - _NOTE_MS:
                about = note.data.get("rank", note.rank)
                if isinstance(about, int) and about in by_rank:
                    return by_rank[about]
    return None


def _odd_one(ranks: Sequence[RankView]) -> list[RankView]:
    """Those that the others seem to wait for: at the lowest step, or not where the others are."""
    if len(ranks) < 2:
        return list(ranks)
    steps = {rank.rank: int(rank.steps.step[-1]) if len(rank.steps) else -1 for rank in ranks}
    lowest = min(steps.values())
    behind = [rank for rank in ranks if steps[rank.rank] == lowest]
    if len(behind) <= len(ranks) // 2:
        return behind
    apart = [rank for rank in ranks if rank.doing not in SYNC_PHASES]
    if 0 < len(apart) <= len(ranks) // 2:
        return apart
    places = Counter(rank.doing for rank in ranks).most_common()
    if len(places) > 1 and places[0][1] * 2 > len(ranks):
        return [rank for rank in ranks if rank.doing != places[0][0]]
    return []


def _looks_hung(job: JobView, scene: Scene, onset_ms: int) -> bool:
    """All its GPUs run something that takes little power: kernels that wait for each other."""
    figures, times = scene.telemetry.figures, scene.telemetry.times_ms
    rows = list(job.rows)
    power, runs = figures.get(Figure.POWER), figures.get(Figure.UTILIZATION)
    if not rows or power is None or runs is None:
        return False
    after = times > onset_ms + 5_000
    before = (times <= onset_ms) & (times > onset_ms - 120_000)
    now, was, busy = _last(power[rows][:, after]), _last(power[rows][:, before]), _last(runs[rows][:, after])
    hung = [
        one < _HUNG_POWER * other and used >= _HUNG_UTILIZATION
        for one, other, used in zip(now, was, busy, strict=True)
    ]
    return sum(hung) * 2 > len(rows)


def _last(values: NDArray[np.float32]) -> list[float]:
    """Of each row, what was said last; NaN where nothing was."""
    if not values.shape[1]:
        return [float("nan")] * len(values)
    last = values.shape[1] - 1 - (~np.isnan(values[:, ::-1])).argmax(axis=1)
    found: list[float] = values[np.arange(len(values)), last].tolist()
    return found


def node_of(ranks: Sequence[RankView]) -> str | None:
    nodes = {rank.process.node for rank in ranks if rank.process is not None}
    return (nodes.pop() or None) if len(nodes) == 1 else None


def where_they_are(standing: Standing) -> str:
    where: dict[str, list[int]] = {}
    for rank in standing.alive:
        step = int(rank.steps.step[-1]) if len(rank.steps) else None
        at = f"after step {step}" if step is not None else "before the first step"
        where.setdefault(f"{at}, in {rank.doing}" if rank.doing else at, []).append(rank.rank)
    for rank, fate in standing.missing:
        where.setdefault(_FATES[fate], []).append(rank.rank)
    return "; ".join(f"{ranks_name(ranks)} {at}" for at, ranks in where.items())


_FATES: Final[Mapping[Fate, str]] = {
    Fate.FAILED: "its program has failed",
    Fate.DEAD: "its process is dead",
    Fate.FROZEN: "its process is there, and says nothing",
    Fate.NODE_GONE: "its node is gone",
    Fate.LEFT: "its pod has left",
    Fate.UNHEARD: "it is not heard, though its GPU or pod goes on",
    Fate.UNKNOWN: "it is not heard any more",
}


def what_it_is(verdict: Verdict) -> str:
    who = rank_name(verdict.rank) if verdict.rank is not None else ""
    if not who and verdict.node:
        who = f"ranks on {verdict.node}"
    match verdict.cause:
        case "data":
            return f"{who or 'all ranks'} wait{'s' if verdict.rank else ''} for data"
        case "gil-held":
            return f"{who or 'a rank'} is alive, but its Python interpreter is locked"
        case "process-dead":
            how = (
                "is dead"
                if verdict.confidence > _OF_FATE[Fate.UNKNOWN][1]
                else "is not heard: dead, or locked"
            )
            return f"{who or 'a rank'} {how}, and the others wait for it"
        case "node-gone":
            return f"the node of {who or 'some ranks'} is gone"
        case "collective":
            behind = f", {who} is not in it" if who else ""
            return f"its ranks wait in a collective{behind}"
        case "unknown":
            return f"{who} is behind the others" if who else "nothing tells why"
        case doing:
            return f"its {doing} does not end"


def what_to_do(verdict: Verdict, job: JobView) -> str:
    rank = verdict.rank
    process = rank.process if rank is not None else None
    pid = f" --pid {process.pid}" if process is not None and process.pid is not None else ""
    stacks = f"`py-spy dump{pid}`" + (f" on {process.node}" if process is not None and process.node else "")
    run = f"trilens runs show {job.run.run}" if job.run is not None else "trilens workloads"
    match verdict.cause:
        case "data":
            return f"Look at the storage and the loader's workers: {stacks} says which file it reads."
        case "gil-held":
            return f"See which C code holds the lock: {stacks}; then restart that rank, or the job."
        case "process-dead":
            return f"Restart the job from its last checkpoint; why it died: `{run}` and the pod's log."
        case "node-gone":
            return (
                f"Cordon {verdict.node or 'the node'} and restart the job elsewhere from its last checkpoint."
            )
        case "collective":
            whom = f"rank {rank.rank} does" if rank is not None else "each rank does"
            return f"See what {whom}: {stacks}, and the flight recorder in `{run}`; then restart the job."
        case "unknown":
            return f"See where each rank is: `{run}`, then {stacks}."
        case doing:
            return f"Look at the storage that the {doing} goes to; {stacks} says where it waits."
