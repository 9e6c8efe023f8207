"""Faults of the simulator, led through collectors, intake and detectors to a case file, and asked about.

The label is the simulator's own truth: which fault it was, and whom it hit.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.detect.cases import calm_looks, looks
from bench.detect.episodes import CALM, calm_episodes, fault_episode
from bench.verdicts.labelled import Case, Label, Said
from bench.verdicts.lots import FINE, LOTS, QUIET, Lot
from trilens.diagnose.case import Case as Asked
from trilens.diagnose.walk import why

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.detect.episodes import Episode
    from bench.verdicts.lots import Quiet
    from trilens.diagnose.case_file import CaseFile
    from trilens.model.verdict import Verdict
    from trilens.simulate.truth import FaultTruth

_SIMULATED: Final = "simulated"
_CALM: Final = f"{_SIMULATED}: nothing is wrong"
_LIKELY_S: Final = 300.0  # when it looks like trouble, where the scenario does not say


class Turn(NamedTuple):
    """One episode, and what is asked of it."""

    episode: Episode
    lot: Lot | Quiet


def turns(seed: int, only: str = "") -> Iterator[Turn]:
    """The same seed gives the same episodes; another one shares none with them. `only`: how groups begin."""
    for lot in LOTS:
        for at, severity in enumerate(lot.fault.severities[: lot.severities]):
            if _group(lot).startswith(only):
                yield Turn(fault_episode(lot.fault, severity, f"why {seed}:{lot.fault.name}:{at}"), lot)
    calm = {one.name: one for one in CALM}
    for quiet in QUIET if _CALM.startswith(only) else ():
        [episode] = calm_episodes(seed, [replace(calm[quiet.name], seeds=1)])
        yield Turn(episode, quiet)


def _group(lot: Lot) -> str:
    return f"{_SIMULATED}: {lot.group or lot.fault.name}"


def live(turn: Turn) -> list[Case]:
    if isinstance(turn.lot, Lot):
        return list(_of_fault(turn.episode, turn.lot))
    return list(_of_quiet(turn.episode, turn.lot))


def asked(file: CaseFile) -> list[Said]:
    """As `trilens why` would say it."""
    return [_said(one) for one in why(Asked(file))]


def _of_fault(episode: Episode, lot: Lot) -> Iterator[Case]:
    for after_s, lived in zip(lot.after_s, looks(episode, lot.after_s), strict=True):
        for file in lived.cases:
            name = f"{episode.key}, {file.subject.name} after {after_s:g} s"
            yield Case(_group(lot), name, _label(lot, lived.truth), asked(file))


def _label(lot: Lot, truth: FaultTruth) -> Label:
    if not lot.fault.has_rank or truth.rank is None:
        return Label(lot.causes)
    return Label(lot.causes, (truth.rank,), truth.gpu_uuid)


def _of_quiet(episode: Episode, quiet: Quiet) -> Iterator[Case]:
    calm = episode.scenario.calm
    begins_s = calm[0].at if calm else _LIKELY_S
    at_s = [begins_s + after_s for after_s in quiet.at_s]
    label = Label({**FINE, **quiet.causes}, may_not_know=True)
    for moment_s, files in zip(at_s, calm_looks(episode, at_s), strict=True):
        for file in files:
            if file.subject.name == quiet.job:
                name = f"{episode.key} at {moment_s:.0f} s"
                yield Case(_CALM, name, label, asked(file))


def _said(verdict: Verdict) -> Said:
    rank, gpu = verdict.subject.rank, verdict.subject.gpu
    return Said(verdict.cause, verdict.confidence, verdict.text, () if rank is None else (rank,), gpu or "")
