"""A recorder without its threads, and what it recorded, for tests of what tells it things."""

from typing import NamedTuple

from trilens.sdk.guard import Guard
from trilens.sdk.identity import Identity
from trilens.sdk.options import Options
from trilens.sdk.recorder import Recorder


class Step(NamedTuple):
    number: int
    phases: dict[str, int]
    values: dict[str, float]
    device: dict[str, int]
    duration_ns: int


def new_recorder() -> Recorder:
    return Recorder("run-1", Identity(), Options(), Guard())


def steps_of(recorder: Recorder) -> list[Step]:
    """Those that are finished, taken away from it; what they wait for is read if it is there."""
    recorder.settle()
    notes = recorder.take_steps(10_000, all_of_them=True)
    return [Step(note[1], note[4], note[5], note[6], note[3] - note[2]) for note in notes]
