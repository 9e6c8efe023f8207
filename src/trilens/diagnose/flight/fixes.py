"""What to do, by the reason why a collective does not end. {who} are the culprits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.flight.flight_verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

_SAME_EVERYWHERE: Final = (
    "Let all ranks of the group call the same collectives in the same order, with the same sizes and types: "
    "look for a branch on the rank, on data or on an exception between the last common one and this one."
)
FIXES: Final[Mapping[Reason, tuple[str, ...]]] = {
    Reason.NEVER_ENTERED: (
        "Look at what {who} does instead: stacks (py-spy dump --pid, or the artifact `stacks` of the SDK), "
        "the end of the log, the GPU and the data.",
        "Where a loop was left early or a branch skipped, let it take part; where a process is gone, its log "
        "says why.",
    ),
    Reason.MISMATCHED_COLLECTIVE: (_SAME_EVERYWHERE,),
    Reason.MISMATCHED_ORDER: (_SAME_EVERYWHERE,),
    Reason.MISMATCHED_SHAPE: (_SAME_EVERYWHERE,),
    Reason.MISMATCHED_DTYPE: (_SAME_EVERYWHERE,),
    Reason.GPU_BEHIND: (
        "Look at the GPUs of {who}: Xid messages, a kernel of their own that does not end, clocks held back.",
    ),
    Reason.DID_NOT_DUMP: (
        "Look whether the processes of {who} are alive, and at the end of their logs: one that crashed "
        "leaves no dump.",
        "Collect the dumps of all nodes into one folder.",
    ),
    Reason.ALL_SAME: (
        "It is not the program: look at the network between these ranks (trilens nccl on their logs) and at "
        "their GPUs.",
    ),
}
