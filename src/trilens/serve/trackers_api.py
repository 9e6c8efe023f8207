"""/api/trackers: which experiment trackers are followed, and how that goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trilens.serve.envelope import accepts_gzip, pack, packed_response, success

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.serve.trackers import Following


class TrackerAnswer(msgspec.Struct, frozen=True):
    """One that is followed. Null is "not yet" or "nothing"."""

    system: str
    where: str
    passed_ms: int | None  # when all of it was last read through
    runs: int  # that changed since the server's start
    points: int  # kept since then
    expired: int  # not kept: older than what is kept, or in the future
    trouble: str | None
    refused: str | None  # why figures were not taken, the last time that happened
    every_s: float  # the pause between two passes


class TrackersApi:
    def __init__(self, followed: Sequence[Following]) -> None:
        self._followed = followed

    async def every(self, request: Request) -> Response:
        told = [
            TrackerAnswer(
                status.system,
                status.where,
                status.passed_ms,
                status.runs,
                status.points,
                status.expired,
                status.trouble,
                status.refused,
                status.every_s,
            )
            for status in (one.status for one in self._followed)
        ]
        return packed_response(pack(success(msgspec.json.encode(told)), accepts_gzip(request)))
