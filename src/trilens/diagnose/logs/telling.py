"""A cause in words: what it is, what to do, what follows from it, and what is not known."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from trilens.diagnose.logs.candidates import some
from trilens.diagnose.logs.log_verdict import UNKNOWN, Follower, LogVerdict, Told
from trilens.diagnose.logs.signs import Depth, filled
from trilens.model.rank_names import rank_spans
from trilens.model.verdict import Layer, Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.logs.people import Who
    from trilens.diagnose.logs.scene import Candidate, Scene

_SEVERAL: Final = 0.8  # of the confidence is left where another cause would do as well
_RANKS_AWAY: Final = 0.8  # ... where a log that is not here may say more
_SURE: Final = 0.9  # nothing more is asked for from here on
_SHOWN: Final = 40  # lines of the order of events
_NO_RANK: Final = Missing(
    "which rank it was: its line does not say",
    "logs by rank (torchrun --log-dir) or with prefixes (kubectl logs --prefix, srun --label)",
)
# What texts say where the line does not name it.
_UNNAMED: Final = {
    "doing": "",
    "error": "an error",
    "frame": "its last frame",
    "networks": "their logs show which",
    "op": "one",
    "other": "another",
    "peer": "another node",
    "reason": "by whom, the log does not say",
    "seq": "unknown",
    "signal": "by a signal",
    "versions": "their logs show which",
    "waited": "after its time-out",
}


def verdict_on(scene: Scene, first: Candidate, others: Sequence[Candidate]) -> LogVerdict:
    confidence = first.sure
    missing: list[Missing] = []
    if others:
        confidence *= _SEVERAL
    away = _away(scene)
    if away is not None:
        missing.append(away)
    # A peer that is not heard may have ended before: that is where the cause would be.
    unheard = "peer" in first.names and first.names["peer"] not in scene.people.hosts
    doubtful = first.of.may_follow and first.of.name != "rank-left"  # whose own log is away, mostly
    if (doubtful and (away or unheard)) or (away and (first.of.depth is Depth.OUTCOME or not first.number)):
        confidence *= _RANKS_AWAY
    if confidence < _SURE:
        missing += first.of.needs
    missing += _blind_spots(scene, confidence, several=bool(others))
    if first.who.rank is None and first.number and len(scene.people.expected) > 1:
        missing.append(_NO_RANK)
    names = {
        "who": str(first.who),
        **_UNNAMED,
        **{name: value for name, value in first.names.items() if value},
    }
    return LogVerdict(
        first.of.name,
        first.of.family,
        first.of.layer,
        _sentence(filled(first.of.text, names)),
        round(confidence, 3),
        tuple(filled(line, names) for line in first.of.fix),
        first.who,
        scene.clocks.known_moment(first.t_ms),
        scene.found.sources[first.source].name if first.number else "",
        first.number,
        first.text,
        first.why,
        tuple(dict.fromkeys(missing)),
        tuple(_as_told(scene, one) for one in others),
        _followers(scene, first),
        _order(scene),
        {host: offset for host, offset in scene.clocks.offsets.items() if offset},
        len(scene.people.present),
        sum(scene.found.lines),
    )


def no_cause(scene: Scene) -> LogVerdict:
    lines = sum(scene.found.lines)
    away = _away(scene)
    missing = [*([away] if away else []), *_blind_spots(scene, 0.0, several=False)]
    logs = len(scene.found.sources)
    read = f"{lines} {'line' if lines == 1 else 'lines'} of {logs} {'log' if logs == 1 else 'logs'}"
    nothing_read = "The logs are empty." if logs else "No log could be read."
    return LogVerdict(
        UNKNOWN,
        UNKNOWN,
        Layer.UNKNOWN,
        f"Nothing in {read} tells of a cause." if lines else nothing_read,
        0.0,
        missing=tuple(missing),
        ranks=len(scene.people.present),
        lines=lines,
    )


def _away(scene: Scene) -> Missing | None:
    away = scene.people.away
    if not away:
        return None
    what = f"the logs of {len(away)} of {len(scene.people.expected)} ranks: {rank_spans(away)}"
    return Missing(what, "hand in the logs of all ranks; one may have the cause")


def _blind_spots(scene: Scene, confidence: float, *, several: bool) -> list[Missing]:
    found = scene.found
    told = []
    if not found.hears_nccl and confidence < _SURE:
        remedy = "NCCL_DEBUG=INFO (at least WARN) in the environment of all ranks"
        told.append(Missing("what NCCL itself says", remedy))
    if found.old_async_name:
        what = "errors of NCCL may not be handled: NCCL_ASYNC_ERROR_HANDLING is an old name"
        told.append(Missing(what, "set TORCH_NCCL_ASYNC_ERROR_HANDLING instead"))
    if confidence < _SURE and (cut := [source.name for source in found.sources if source.is_cut]):
        told.append(Missing(f"the beginning of {some(cut)}", "hand in the whole log"))
    if confidence < _SURE and (unended := [found.sources[at].name for at in found.unended]):
        what = f"the end of {some(unended)}, which stop{'' if len(unended) > 1 else 's'} within a traceback"
        told.append(Missing(what, "hand in the whole log"))
    if several and any(hit.t_ms is None for hit, _ in scene.hits):
        remedy = "logs with times: kubectl logs --timestamps; NCCL_DEBUG_TIMESTAMP_LEVELS=ALL (NCCL 2.26)"
        told.append(Missing("which came first: lines have no times", remedy))
    if found.dropped:
        told.append(Missing(f"{found.dropped} more lines with signs", "hand in a shorter part of the logs"))
    return told


def _followers(scene: Scene, first: Candidate) -> tuple[Follower, ...]:
    ranks: defaultdict[str, set[int]] = defaultdict(set)
    lines: Counter[str] = Counter()
    for hit, who in scene.hits:
        if hit.sign.cause != first.of.name:
            lines[hit.sign.cause] += hit.count
            if who.rank is not None:
                ranks[hit.sign.cause].add(who.rank)
    return tuple(Follower(cause, tuple(sorted(ranks[cause])), count) for cause, count in lines.most_common())


def _order(scene: Scene) -> tuple[Told, ...]:
    """The first line of each class on each rank, as it happened."""
    first: dict[tuple[str, Who], Told] = {}
    for hit, who in scene.hits:
        file = scene.found.sources[hit.speaker.source].name
        moment = scene.moment(hit)
        one = Told(hit.sign.cause, who, moment, file, hit.number, hit.text, hit.sign.kind, hit.count)
        known = first.get((one.cause, who))
        if known is None or (known.file == one.file and one.number < known.number):
            first[(one.cause, who)] = one
    # A line without a time came before the next one of its log that has one.
    moments: dict[Told, int | None] = {}
    following: dict[str, int | None] = {}
    for one in sorted(first.values(), key=lambda one: -one.number):
        following[one.file] = moments[one] = one.t_ms if one.t_ms is not None else following.get(one.file)
    ordered = sorted(moments, key=lambda one: (moments[one] is None, moments[one] or 0, one.file, one.number))
    return tuple(ordered[:_SHOWN])


def _as_told(scene: Scene, one: Candidate) -> Told:
    file = scene.found.sources[one.source].name if one.number else ""
    return Told(one.of.name, one.who, one.t_ms, file, one.number, one.text or one.why, one.kind)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
