"""The end of what a container wrote, through the API server: the same that `kubectl logs` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.collect.kubernetes.api import KubeApi

# How many lines are asked for, and fewer where those are too long: what is beyond the limit of bytes is the
# end, which matters most.
_TAILS: Final = (500, 50, 5)
_MOST_BYTES: Final = 256 * 1024


class LogEnd(NamedTuple):
    lines: Sequence[str]
    is_cut: bool  # there was more before it


async def read_log(
    api: KubeApi, namespace: str, pod: str, container: str, *, previous: bool = False
) -> LogEnd:
    """`previous` is the run of the container before this one. Raises KubeApiError: with status 403 where it
    is not allowed."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
    query = {"container": container, "limitBytes": str(_MOST_BYTES)}
    if previous:
        query["previous"] = "true"
    body, tail = b"", 0
    for tail in _TAILS:
        body = await api.get(path, {**query, "tailLines": str(tail)}, accept="*/*")
        if len(body) < _MOST_BYTES:
            break
    lines = body.decode("utf-8", "replace").splitlines()
    return LogEnd(lines, len(lines) >= tail)
