"""How patient the watching is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WatchTiming:
    watch_s: float = 400.0  # then the server ends a watch, and it is opened anew; jittered
    silence_s: float = 180.0  # a living watch brings a bookmark about every minute
    first_retry_s: float = 0.5
    last_retry_s: float = 30.0
    refused_retry_s: float = 60.0  # a permission is granted by a person
    discovery_s: float = 60.0
    gone_after_s: float = 120.0  # a server that restarts does not know all of its kinds at once
    steady_s: float = 10.0  # a watch that held so long did not fail at its start
