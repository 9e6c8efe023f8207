"""What the time of a holding went into: lives of ranks, and what lies before, between and after them."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger import causes
from trilens.ledger.allocation import doubts
from trilens.ledger.allocation.booking_time import makes_progress
from trilens.ledger.allocation.hour_facts import SOON_MS
from trilens.ledger.span import Part, Span
from trilens.ledger.telemetry.coarse import Asked, coarse_spans
from trilens.ledger.telemetry.minutes import MINUTE_MS
from trilens.model.ledger import Basis, Bucket
from trilens.model.ledger_facts import LifeKey

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trilens.ledger.allocation.holdings import Holding
    from trilens.ledger.allocation.lives_held import Lives
    from trilens.ledger.source import Signals
    from trilens.model.ledger_facts import Facts
    from trilens.model.run import RankProcess, RunId

_FOREVER: Final = 1 << 62


class Line(NamedTuple):
    """Time of a holding for one run, or for none that is known. Lines of one holding at the same time have
    equal parts of it. The spans cover it, and may reach beyond it."""

    holding: int
    run: RunId | None
    from_ms: int
    to_ms: int
    spans: Sequence[Span]
    doubts: tuple[str, ...] = ()


class _Outside(NamedTuple):
    """Time before the first life or after one, and what it means that a coarser signal says there."""

    asked: Asked
    meant: Callable[[Span], Span]


class _Waiting(NamedTuple):
    spans: list[Span]  # of a line, without what is asked for
    at: int  # where that belongs
    meant: Callable[[Span], Span] | None = None


def lines_of(
    holdings: Sequence[Holding],
    lives: Lives,
    told: Mapping[LifeKey, Sequence[Span]],
    facts: Facts,
    signals: Signals,
) -> list[Line]:
    """In the order of the holdings. What no step tells of is asked of coarser signals, all at once."""
    lines: list[Line] = []
    asked: list[Asked] = []
    waiting: list[_Waiting] = []  # of each that was asked
    for number, holding in enumerate(holdings):
        of_holding = lives.get(number)
        if not of_holding:
            spans: list[Span] = []
            waiting.append(_Waiting(spans, 0))
            asked.append(_asked(holding, holding.from_ms, holding.to_ms))
            lines.append(Line(number, None, holding.from_ms, holding.to_ms, spans))
            continue
        if len(of_holding) == 1:
            life = of_holding[0]
            of_life = told.get(LifeKey(life.run, life.rank, life.attempt))
            if of_life and of_life[0].from_ms <= holding.from_ms and of_life[-1].to_ms >= holding.to_ms:
                lines.append(Line(number, life.run, holding.from_ms, holding.to_ms, of_life))
                continue
        for line, pieces in _pieced(number, holding, of_holding, told):
            spans = []
            for piece in pieces:
                if isinstance(piece, Span):
                    spans.append(piece)
                    continue
                own, meant = piece if isinstance(piece, _Outside) else (piece, None)
                waiting.append(_Waiting(spans, len(spans), meant))
                asked.append(own)
            lines.append(line._replace(spans=spans))
    answers = coarse_spans(asked, facts, signals)
    # From the last to the first, so that places stay what they are.
    for (spans, at, meant), answer in zip(reversed(waiting), reversed(answers), strict=True):
        spans[at:at] = answer if meant is None else map(meant, answer)
    return lines


def _starting(since_ms: int, span: Span) -> Span:
    """It starts, whatever else is said of it."""
    if all(part.bucket is Bucket.STARTING for part in span.parts):
        return span  # and known is what it waits for
    part = Part(Bucket.STARTING, causes.LOADING, span.to_ms - span.from_ms)
    return Span(span.from_ms, span.to_ms, (part,), Basis.STEPS, since_ms)


def _ended(since_ms: int, span: Span) -> Span:
    """Its pod holds the GPU for nothing, unless something in it works: a notebook goes on, a program that
    tells of no run follows, or the one that fell silent lives. Telemetry is of whole minutes: that in which
    the program ended is the program's."""
    if span.basis is Basis.LOAD or (makes_progress(span) and span.to_ms > since_ms + MINUTE_MS):
        return span
    part = Part(Bucket.ALLOCATED_IDLE, causes.ENDED, span.to_ms - span.from_ms)
    return Span(span.from_ms, span.to_ms, (part,), Basis.STEPS, since_ms)


def _asked(holding: Holding, from_ms: int, to_ms: int) -> Asked:
    gpu, member = holding.gpu, holding.member
    return Asked(gpu.uuid, gpu.instance, member.pod, member.workload, from_ms, to_ms)


_Piece = Span | Asked | _Outside


class _Lived(NamedTuple):
    """A life on a holding, as long as it lasted. `spans` is empty where it told no steps."""

    life: RankProcess
    from_ms: int
    to_ms: int
    spans: Sequence[Span]


class _Moment(NamedTuple):
    """In it no life begins or ends, or stops getting on."""

    from_ms: int
    to_ms: int
    runs: dict[RunId, _Lived]  # of each run that lives the life that tells
    doubts: tuple[str, ...]


def _pieced(
    number: int, holding: Holding, lives: list[RankProcess], told: Mapping[LifeKey, Sequence[Span]]
) -> Iterator[tuple[Line, list[_Piece]]]:
    lived = _lived(holding, lives, told)
    open_lines: dict[RunId | None, tuple[Line, list[_Piece]]] = {}
    for moment in _moments(holding, lived):
        begin, end = moment.from_ms, moment.to_ms
        now: dict[RunId | None, list[_Piece]]
        if moment.runs:
            now = {run: [*_of_life(holding, one.spans, begin, end)] for run, one in moment.runs.items()}
        else:
            between, piece = _outside(holding, lived, begin, end)
            now = {between: [piece]}
        for gone in [run for run in open_lines if run not in now]:
            yield open_lines.pop(gone)
        for run, pieces in now.items():
            known = open_lines.get(run)
            if known is not None and known[0].doubts == moment.doubts:
                known[1].extend(pieces)
                open_lines[run] = (known[0]._replace(to_ms=end), known[1])
                continue
            if known is not None:
                yield known
            open_lines[run] = (Line(number, run, begin, end, (), moment.doubts), pieces)
    yield from open_lines.values()


def _lived(
    holding: Holding, lives: list[RankProcess], told: Mapping[LifeKey, Sequence[Span]]
) -> list[_Lived]:
    """In the order of their beginning. A life ends where its spans do, which know of its last steps and of
    those that began after it; without any, when it said so or another life of its rank began."""
    found: list[_Lived] = []
    for at, life in enumerate(lives):
        spans = told.get(LifeKey(life.run, life.rank, life.attempt), ())
        end_ms = _FOREVER if life.ended_ms is None else max(life.ended_ms, life.started_ms)
        if spans and spans[-1].to_ms < holding.to_ms:
            end_ms = spans[-1].to_ms
        elif life.ended_ms is None:
            followers = (
                one.started_ms for one in lives[at + 1 :] if one.run == life.run and one.rank == life.rank
            )
            end_ms = next(followers, _FOREVER)
        found.append(_Lived(life, life.started_ms, max(end_ms, life.started_ms), spans))
    return found


def _moments(holding: Holding, lived: list[_Lived]) -> Iterator[_Moment]:
    begin_ms, end_ms = holding.from_ms, holding.to_ms
    cuts = {begin_ms, end_ms}
    for one in lived:
        edges = [one.from_ms, one.to_ms]
        if len(lived) > 1:  # while one of them hangs, another may tell
            edges += (t for span in one.spans if not makes_progress(span) for t in (span.from_ms, span.to_ms))
        cuts.update(t for t in edges if begin_ms < t < end_ms)
    for begin, end in pairwise(sorted(cuts)):
        of_runs: defaultdict[RunId, list[_Lived]] = defaultdict(list)
        for one in lived:
            if one.from_ms <= begin and one.to_ms >= end:
                of_runs[one.life.run].append(one)
        doubted = {doubts.RUNS_SHARE_GPU} if len(of_runs) > 1 else set()
        if any(_is_told_twice(living) for living in of_runs.values()):
            doubted.add(doubts.RUN_TOLD_TWICE)
        runs = {run: _who_tells(living, begin, end) for run, living in of_runs.items()}
        yield _Moment(begin, end, runs, tuple(sorted(doubted)))


def _is_told_twice(living: list[_Lived]) -> bool:
    """Where steps are told, they know themselves that they were told twice."""
    silent = [one.life.rank for one in living if not one.spans]
    return len(set(silent)) < len(silent)


def _who_tells(living: list[_Lived], begin_ms: int, end_ms: int) -> _Lived:
    """The first that began, but for one that hangs while another goes on."""
    working = (
        one
        for one in living
        if any(span.from_ms < end_ms and span.to_ms > begin_ms and makes_progress(span) for span in one.spans)
    )
    return living[0] if len(living) == 1 else next(working, living[0])


def _of_life(holding: Holding, spans: Sequence[Span], begin_ms: int, end_ms: int) -> Iterator[Span | Asked]:
    """What the life tells, and where it does not, whoever else knows."""
    at = begin_ms
    for span in spans:
        if span.to_ms <= at:
            continue
        if span.from_ms >= end_ms:
            break
        if span.from_ms > at:
            yield _asked(holding, at, span.from_ms)
        at = max(span.from_ms, at)
        yield span.within(at, min(span.to_ms, end_ms))
        at = min(span.to_ms, end_ms)
    if at < end_ms:
        yield _asked(holding, at, end_ms)


def _outside(
    holding: Holding, lived: list[_Lived], begin_ms: int, end_ms: int
) -> tuple[RunId | None, _Piece]:
    """Time in which no life is: before the first, between two of one run, or after one that is not followed
    by another of its run."""
    ended = max((one for one in lived if one.to_ms <= begin_ms), key=attrgetter("to_ms"), default=None)
    coming = next((one for one in lived if one.from_ms >= end_ms), None)
    asked = _asked(holding, begin_ms, end_ms)
    if ended is not None:
        since_ms = max(ended.to_ms, holding.began_ms)
        is_followed = coming is not None and coming.life.run == ended.life.run
        if is_followed and coming is not None and coming.from_ms - ended.to_ms <= SOON_MS:
            part = Part(Bucket.STARTING, causes.RESTARTING, end_ms - begin_ms)
            return ended.life.run, Span(begin_ms, end_ms, (part,), Basis.STEPS, since_ms)
        return ended.life.run, _Outside(asked, partial(_ended, since_ms))
    if coming is not None and coming.from_ms - holding.began_ms <= SOON_MS:
        return coming.life.run, _Outside(asked, partial(_starting, holding.began_ms))
    return None, asked
