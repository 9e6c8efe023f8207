"""A command run inside a container, through the API server: the same that `kubectl exec` does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import aiohttp
import msgspec

from trilens.model.errors import KubeApiError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.collect.kubernetes.api import KubeApi

PROTOCOL: Final = "v4.channel.k8s.io"
_OUTPUT: Final = (1, 2)  # the channels of stdout and stderr
_ENDED: Final = 3  # the channel on which it is told how it ended
_MOST_BYTES: Final = 64 * 1024


class Ran(NamedTuple):
    exit_code: int | None  # None where nobody told
    output: str


async def run_in_container(
    api: KubeApi, namespace: str, pod: str, container: str, command: Sequence[str], *, within_s: float
) -> Ran:
    """Raises KubeApiError: with status 403 where it is not allowed."""
    query = [("command", word) for word in command]
    query += [("container", container), ("stdout", "true"), ("stderr", "true")]
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
    output, ended = bytearray(), None
    try:
        async with asyncio.timeout(within_s), api.socket(path, query, PROTOCOL) as socket:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                    continue
                channel, said = message.data[0], message.data[1:]
                if channel in _OUTPUT:
                    output += said[: max(_MOST_BYTES - len(output), 0)]
                elif channel == _ENDED:
                    ended = _exit_code(said)
    except TimeoutError as e:
        raise KubeApiError(f"{' '.join(command)} in {pod} did not end within {within_s:g} s") from e
    return Ran(ended, output.decode("utf-8", "replace"))


def _exit_code(said: bytes) -> int | None:
    try:
        told: Any = msgspec.json.decode(said)
        if told.get("status") == "Success":
            return 0
        causes = told["details"]["causes"]
        return int(next(one["message"] for one in causes if one["reason"] == "ExitCode"))
    except (msgspec.DecodeError, LookupError, TypeError, ValueError, AttributeError, StopIteration):
        return None
