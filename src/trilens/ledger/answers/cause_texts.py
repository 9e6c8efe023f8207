"""What happened, in words, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger import causes
from trilens.model.ledger import Bucket

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.ledger.lives.lost_work import LostSteps
    from trilens.model.ledger_sums import Episode
    from trilens.model.run import RunId

_ONE_CRASH_MS: Final = 600_000  # ranks of one crash end within its timeout


class Cause(NamedTuple):
    """`text` says what happened, without who, how many and how much. `lost` is of a crash whose steps are
    known: the first and the last that were thrown away. `times` it happened, put together."""

    episode: Episode
    text: str
    remedy: str
    lost: tuple[int, int] | None
    times: int


def explained(
    episode: Episode, times: int, nodes: Sequence[str], lost: Mapping[RunId, Sequence[LostSteps]]
) -> Cause:
    """`nodes` are those that it was on, where they are known."""
    known = lost.get(episode.run, ()) if episode.run is not None else ()
    thrown = _thrown_away(episode, known) if episode.bucket is Bucket.RECOMPUTE else None
    text, remedy = _SAID.get((episode.bucket, episode.cause)) or _SAID_OF_BUCKET[episode.bucket]
    if thrown is not None:
        first, last = thrown
        steps = last - first + 1
        many = "1 step" if steps == 1 else f"{steps:,} steps"
        text = f"crash at step {last:,}, {many} after the last checkpoint were lost"
    elif "{step}" in text:
        at = f" at step {episode.step:,}" if episode.step is not None else ""
        text = text.replace("{step}", at)
    if "{node}" in text:
        text = text.replace("{node}", f"node {episode.node}" if episode.node else "a node")
    elif nodes:
        text += f" on {nodes[0]}" if len(nodes) == 1 else f" on {len(nodes):,} nodes"
    return Cause(episode, text, remedy, thrown, times)


def _thrown_away(episode: Episode, lost: Sequence[LostSteps]) -> tuple[int, int] | None:
    """Of the crash that the episode tells of, over all ranks."""
    mine = [
        one
        for one in lost
        if (episode.step is None or one.first_step <= episode.step <= one.last_step)
        and (episode.since_ms is None or episode.since_ms <= one.lost_ms)
    ]
    if not mine:
        return None
    when = min(one.lost_ms for one in mine)
    near = [one for one in mine if one.lost_ms - when < _ONE_CRASH_MS]
    return min(one.first_step for one in near), max(one.last_step for one in near)


_DATA: Final = "give the loader more workers or prefetch, or read the data from nearer"
_SYNC: Final = "trilens show names the slow rank; trilens preflight finds slow links"
_STALL: Final = "trilens runs show has the ranks and their stacks; restart from the last checkpoint"
_IDLE: Final = "stop it, or give the GPUs back when its program ends"
_FREE: Final = "fewer nodes, or let queued jobs have them"
_SAID: Final[dict[tuple[Bucket, str], tuple[str, str]]] = {
    (Bucket.DATA_WAIT, causes.STEPS): ("waited for data", _DATA),
    (Bucket.SYNC_WAIT, causes.STEPS): ("waited for other ranks", _SYNC),
    (Bucket.STARTING, causes.PULLING): (
        "waited for its pods to start",
        "keep the image on the nodes, or make it smaller",
    ),
    (Bucket.STARTING, causes.LOADING): (
        "loaded before its first step",
        "keep compiled code and data in a cache near the GPUs",
    ),
    (Bucket.STARTING, causes.RESTORING): (
        "read a checkpoint",
        "read it from faster storage, or each rank only its part",
    ),
    (Bucket.STARTING, causes.RESTARTING): (
        "held its GPUs between two attempts{step}",
        "trilens runs show says why it ended; restart sooner, or give the GPUs back",
    ),
    (Bucket.STALLED, causes.NO_STEP): ("stalled{step}", _STALL),
    (Bucket.STALLED, causes.HUNG): ("hung: kernels ran at little more than idle power", _STALL),
    (Bucket.STALLED, causes.FINISHING): (
        "did not end after its last step{step}",
        "close loaders, loggers and process groups when training ends",
    ),
    (Bucket.RECOMPUTE, causes.LOST_WORK): (
        "steps after the last checkpoint were lost{step}",
        "write checkpoints more often",
    ),
    (Bucket.ALLOCATED_IDLE, causes.ENDED): ("its program had ended, its pods held the GPUs", _IDLE),
    (Bucket.ALLOCATED_IDLE, causes.NEVER_USED): ("held GPUs and never used them", _IDLE),
    (Bucket.ALLOCATED_IDLE, causes.IDLE): ("held GPUs and did nothing on them", _IDLE),
    (Bucket.SERVING_IDLE, causes.NO_REQUESTS): (
        "served nobody",
        "scale it down between requests, or share the GPU",
    ),
    (Bucket.UNALLOCATED, causes.FREE): ("free", _FREE),
    (Bucket.BROKEN, causes.GPU_LOST): (
        "a GPU of {node} did not report",
        "trilens gpus --lost names it; reset it or take the node out",
    ),
    (Bucket.BROKEN, causes.FAULT): (
        "an Xid took a GPU of {node} out",
        "trilens events has it and what it asks for",
    ),
    (Bucket.BROKEN, causes.NOT_READY): ("{node} not ready", "repair or replace the node"),
    (Bucket.BROKEN, causes.CORDONED): (
        "{node} cordoned, its GPUs free",
        "uncordon it, or give it back",
    ),
}
_SAID_OF_BUCKET: Final = {
    Bucket.DATA_WAIT: ("waited for data", _DATA),
    Bucket.SYNC_WAIT: ("waited for other ranks", _SYNC),
    Bucket.STARTING: ("was starting", "trilens show has its phases"),
    Bucket.STALLED: ("stalled{step}", _STALL),
    Bucket.RECOMPUTE: _SAID[Bucket.RECOMPUTE, causes.LOST_WORK],
    Bucket.ALLOCATED_IDLE: _SAID[Bucket.ALLOCATED_IDLE, causes.IDLE],
    Bucket.SERVING_IDLE: _SAID[Bucket.SERVING_IDLE, causes.NO_REQUESTS],
    Bucket.UNALLOCATED: ("free", _FREE),
    Bucket.BROKEN: ("{node} could not be used", "trilens gpus --lost and trilens events say more"),
}
