"""What begins with a run: talking to the other ranks, once there are any, and watching over its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.sdk.distributed.peers import Peers
from trilens.sdk.distributed.stall import Limits
from trilens.sdk.distributed.watchdog import Watchdog

if TYPE_CHECKING:
    from trilens.sdk.recorder import Recorder


def watch_over(recorder: Recorder, *, total_steps: int | None = None) -> None:
    peers = Peers(recorder)
    recorder.on_tick(peers.look)
    recorder.at_finish(peers.stop)
    stall_after_s = recorder.options.stall_after_s
    if stall_after_s > 0:
        watchdog = Watchdog(
            recorder, Limits(least_s=stall_after_s), total_steps=total_steps, whereabouts=peers.whereabouts
        )
        recorder.at_finish(watchdog.stop)
        watchdog.start()
