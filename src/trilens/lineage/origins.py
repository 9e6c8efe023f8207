"""What a stretch of steps began from: nothing, a checkpoint that its ranks say they loaded, or, where nobody
says so, what its first step's number leads to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from trilens.model.workload import Doubt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.lineage.stretches import Stretch
    from trilens.model.run import CheckpointRecord


class Beginning(StrEnum):
    SCRATCH = "scratch"
    LOADED = "loaded"  # a rank said so
    INFERRED = "inferred"  # from the number of the first step


@dataclass(frozen=True, slots=True)
class Origin:
    """`step` is as the load tells it, or the one before the first. `written` is the checkpoint that was
    loaded, as its writer told of it; it may be another run's. None where nobody told of one."""

    how: Beginning
    step: int | None = None
    path: str | None = None
    written: CheckpointRecord | None = None
    doubts: tuple[Doubt, ...] = ()


def origin(
    stretch: Stretch,
    earlier: Sequence[Stretch],
    written: Sequence[CheckpointRecord],
    elsewhere: Callable[[str], Sequence[CheckpointRecord]],
) -> Origin:
    """`written` are the run's own checkpoints so far; `elsewhere` tells what other runs wrote at a path."""
    load, doubts = _told(stretch)
    if load is None:
        return _inferred(stretch, earlier)
    began = loaded_from(load, written, elsewhere)
    return replace(began, doubts=(*doubts, *began.doubts))


def loaded_from(
    load: CheckpointRecord,
    written: Sequence[CheckpointRecord],
    elsewhere: Callable[[str], Sequence[CheckpointRecord]],
) -> Origin:
    own = [one for one in written if one.ok and one.start_ms <= load.start_ms]
    at_path = [one for one in own if same_place(one.path, load.path)]
    doubts = []
    found = _latest(at_path, load.step)
    if found is None and load.path:
        others = [one for one in elsewhere(load.path) if one.ok and one.start_ms <= load.start_ms]
        found = _latest(others, load.step)
    if found is None:
        found = next((one for one in reversed(own) if one.step == load.step), None)
        doubts.append(_unseen(load, found))
    elif found.run == load.run and abs(found.step - load.step) > 1:  # by one, where steps done are counted
        doubts.append(
            Doubt(
                "step-differs",
                f"attempt {load.attempt} says that it loaded step {load.step} from {load.path}, "
                f"where step {found.step} was written last",
            )
        )
    return Origin(Beginning.LOADED, load.step, load.path, found, tuple(doubts))


def _latest(found: Sequence[CheckpointRecord], step: int) -> CheckpointRecord | None:
    """Of this step if there is one: a path may be written again and again."""
    of_step = [one for one in found if one.step == step] or found
    return of_step[-1] if of_step else None


def same_place(one: str, other: str) -> bool:
    """Equal, or one lies in the other: of a sharded checkpoint some tell the folder and some their file."""
    one, other = one.rstrip("/"), other.rstrip("/")
    if not one or not other:
        return False
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _told(stretch: Stretch) -> tuple[CheckpointRecord | None, list[Doubt]]:
    """What most ranks say that they loaded."""
    if not stretch.loads:
        return None, []
    votes = Counter(load.step for load in stretch.loads)
    step = max(votes, key=lambda step: (votes[step], step))
    load = min((one for one in stretch.loads if one.step == step), key=lambda one: one.rank)
    if len(votes) == 1:
        return load, []
    others = sorted(one.rank for one in stretch.loads if one.step != step)
    doubt = Doubt(
        "loads-differ",
        f"in attempt {_attempts(stretch)} rank {load.rank} loaded step {step}, and ranks "
        f"{', '.join(map(str, others))} another",
        "see what each rank loads",
    )
    return load, [doubt]


def _unseen(load: CheckpointRecord, taken: CheckpointRecord | None) -> Doubt:
    if taken is not None:
        return Doubt(
            "checkpoint-by-step",
            f"{load.path or 'a checkpoint'} was loaded, and nobody told of writing it: the one of step "
            f"{taken.step} at {taken.path} is taken for it",
            "tell of every checkpoint with run.checkpoint(path, step)",
        )
    return Doubt(
        "checkpoint-unknown",
        f"{load.path or 'a checkpoint'} of step {load.step} was loaded, and nobody told of writing it",
        "tell of every checkpoint with run.checkpoint(path, step)",
    )


def _inferred(stretch: Stretch, earlier: Sequence[Stretch]) -> Origin:
    first = min([1, *(one.first_step for one in earlier)])
    if stretch.first_step <= max(first, 1):
        return Origin(Beginning.SCRATCH)
    said = (
        f"attempt {_attempts(stretch)} begins with step {stretch.first_step} and did not tell what it loaded"
    )
    remedy = "tell of it with run.resumed(step, path)"
    if not earlier:
        doubt = Doubt("begins-late", f"{said}: what came before is not known", remedy)
        return Origin(Beginning.INFERRED, stretch.first_step - 1, doubts=(doubt,))
    doubt = Doubt("load-inferred", f"{said}: taken to go on from step {stretch.first_step - 1}", remedy)
    return Origin(Beginning.INFERRED, stretch.first_step - 1, doubts=(doubt,))


def _attempts(stretch: Stretch) -> str:
    return ", ".join(map(str, stretch.attempts))
