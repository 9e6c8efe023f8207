"""What logs tell of the job itself: who is in which communicator, over which network, in which version."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trilens.diagnose.logs.found import Member, Process
from trilens.diagnose.logs.line import rank_number

if TYPE_CHECKING:
    from trilens.diagnose.logs.found import Found, Speaker
    from trilens.diagnose.logs.line import Line

# Words of which a line must have one; of NCCL's own at level INFO, and of others.
IN_INFO: Final = ("anks ", "Bootstrap", "NCCL version", "Using network", " via P2P", " via NET/")
SAYS: Final = ("NCCL version", "orld_size", "WORLD_SIZE", "clients joined", "NCCL_ASYNC_ERROR_HANDLING")

_VIA_P2P: Final = " via P2P"
_VIA_NET: Final = " via NET/"
_MOST_PROCESSES: Final = 50_000  # a log of more is none
_COMM: Final = re.compile(
    r"rank (?P<rank>\d+) n[rR]anks (?P<ranks>\d+)"
    r"(?:.*busId (?P<bus>[0-9a-f]+))?(?:.*commId (?P<comm>0x[0-9a-f]+))?"
)
_BOOTSTRAP: Final = re.compile(r"Bootstrap ?: Using (?:\[0\])?(?P<interface>[^\s:]+):(?P<address>[^\s<]+)<")
_OVER_NET: Final = re.compile(
    r"(?P<one>\d+)(?:\[\w+\])? -> (?P<other>\d+)(?:\[\w+\])? \[(?:send|receive)\] via NET/"
)
_VERSION: Final = re.compile(r"NCCL version (?P<version>\d+\.\d+(?:\.\d+)?)")
_NETWORK: Final = re.compile(r"Using network (?P<network>[\w ]+)")
_WORLD: Final = re.compile(
    r"(?:world[_ ]size|WORLD_SIZE)\s*[=:]\s*(?P<size>\d+)|(?P<came>\d+)/(?P<all>\d+) clients"
)


def needs_no_reading(found: Found, raw: str) -> bool:
    """Of the facts of NCCL the most frequent ones by far: once they are known, they say nothing more."""
    if _VIA_P2P in raw:
        found.uses_p2p = True
        return True
    return found.uses_net and _VIA_NET in raw


def learn_of_nccl(found: Found, line: Line, speaker: Speaker) -> None:
    """From a line that NCCL says at level INFO."""
    if told := _COMM.search(line.text):
        _learn_member(found, line, speaker, told)
    elif told := _BOOTSTRAP.search(line.text):
        found.addresses[told["address"]] = line.host
    elif told := _NETWORK.search(line.text):
        found.networks[line.host] = told["network"].strip()
    elif told := _OVER_NET.search(line.text):
        found.uses_net = True
        for one in (rank_number(told["one"]), rank_number(told["other"])):
            _learn_world(found, one + 1 if one is not None else None)
    elif told := _VERSION.search(line.text):
        found.versions.setdefault((speaker.source, line.host), set()).add(told["version"])


def learn(found: Found, line: Line, source: int, raw: str) -> None:
    if told := _VERSION.search(raw):
        found.versions.setdefault((source, line.host), set()).add(told["version"])
    if told := _WORLD.search(raw):
        _learn_world(found, rank_number(told["size"] or told["all"]))
    if "TORCH_NCCL_ASYNC_ERROR_HANDLING instead" in raw:
        found.old_async_name = True


def _learn_member(found: Found, line: Line, speaker: Speaker, told: re.Match[str]) -> None:
    rank, ranks = rank_number(told["rank"]), rank_number(told["ranks"])
    if line.pid is None or rank is None or ranks is None:
        return
    if len(found.members) >= _MOST_PROCESSES:
        return
    process = Process(line.host, line.pid, line.device or 0)
    member = Member(rank, ranks, told["comm"] or "", told["bus"] or "")
    found.members.setdefault((speaker.source, process), set()).add(member)
    found.lanes.setdefault(speaker.lane, set()).add(process)
    _learn_world(found, ranks)
    if "Init COMPLETE" in line.text and line.t_ms is not None and member.comm:
        found.completed.setdefault((member.comm, line.host), line.t_ms)


def _learn_world(found: Found, size: int | None) -> None:
    if size is not None:
        found.world = max(found.world, size)
