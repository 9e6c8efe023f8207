"""The id of a run. All ranks of a job come to the same one without talking to each other, and keep it when
their launcher starts them anew.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.sdk.identity import Ancestor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.sdk.identity import Identity

_SET_IT: Final = "set TRILENS_RUN_ID, the same for all ranks, to be sure"


class RunName(NamedTuple):
    id: str
    doubt: str | None = None  # what may make ranks disagree, or two jobs agree


_given: dict[str, int] = {}  # how often each id was made in this process


def name_run(
    identity: Identity,
    experiment: str | None,
    environ: Mapping[str, str],
    *,
    arguments: Sequence[str] | None = None,
    parent: Ancestor | None = None,
) -> RunName:
    key, doubt = _key(identity, environ, sys.argv if arguments is None else arguments, parent)
    word = "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "-" for c in experiment or "run")[
        :40
    ]
    if key is None:
        return RunName(f"{word}-{os.urandom(6).hex()}", doubt)
    import hashlib  # loads OpenSSL, which a program on its own has no use for here

    # Another cluster may have a job of the same name.
    content = "\0".join((*key, experiment or "", *([identity.cluster] if identity.cluster else [])))
    digest = hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=6).hexdigest()
    name = f"{word}-{digest}"
    # A program that begins several runs one after the other does so in every rank, in the same order.
    _given[name] = nth = _given.get(name, 0) + 1
    return RunName(name if nth == 1 else f"{name}.{nth}", doubt)


def _key(
    identity: Identity, environ: Mapping[str, str], arguments: Sequence[str], parent: Ancestor | None
) -> tuple[tuple[str, ...] | None, str | None]:
    """What all ranks of the job have in common and no other job has; None: a new id each time."""
    if identity.launcher == "slurm":
        cluster = environ.get("SLURM_CLUSTER_NAME", "")
        if "." in (identity.job or ""):
            return ("slurm", cluster, identity.job or ""), None
        # Started by the batch script itself: the same command again in the same job is taken for a restart.
        return ("slurm", cluster, identity.job or "", *_command(arguments)), None
    meeting = identity.coordinator or ""
    if identity.in_kubernetes and (
        not identity.on_one_node or identity.launcher in ("kubeflow", "jobset", "job")
    ):
        place = meeting.partition(":")[0] if not identity.on_one_node else identity.job or ""
        if place:
            doubt = (
                f"the run's id is made of a name, {place}: a later job of that name has the same; {_SET_IT}"
            )
            index = environ.get("JOB_COMPLETION_INDEX", "") if identity.world_size == 1 else ""
            command = _command(arguments) if identity.on_one_node else ()
            return ("kubernetes", identity.namespace or "", place, index, *command), doubt
    if identity.world_size == 1:
        return None, None
    if identity.on_one_node:
        parent = Ancestor.parent() if parent is None else parent
        return ("launcher", _boot(), identity.node, str(parent.pid), parent.start, identity.job or ""), None
    if identity.launcher == "mpi" and identity.job:
        return ("mpi", identity.job), None
    if identity.job:
        doubt = (
            f"the run's id is made of {identity.job!r}: a job that is given it again has the same; {_SET_IT}"
        )
        return (identity.launcher or "", identity.job, meeting.partition(":")[0]), doubt
    if meeting:
        return ("meeting", meeting), f"the run's id is made of where the ranks meet ({meeting}); {_SET_IT}"
    return (
        None,
        f"nothing that all {identity.world_size} ranks have in common: each has a run of its own; {_SET_IT}",
    )


def _command(arguments: Sequence[str]) -> tuple[str, ...]:
    """Without what older launchers add for each rank."""
    return tuple(one for one in arguments if not one.startswith(("--local_rank", "--local-rank")))


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
