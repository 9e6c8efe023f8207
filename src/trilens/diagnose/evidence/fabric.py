"""The ways between ranks: InfiniBand, the network, NVLink; and the clocks of the nodes."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.found import rank_name, rank_subject
from trilens.diagnose.recent import earlier, late
from trilens.model.finding import Subject
from trilens.model.verdict import Fact, Missing

if TYPE_CHECKING:
    from trilens.diagnose.case import Case
    from trilens.diagnose.case_file import CaseSeries

_FIGURES: Final = ("infiniband-faults", "network-faults", "nvlink-errors")
_GRAVE: Final = ("link_downed", "link_error_recovery")  # a sound link never has one
_PER_SECOND: Final = 1.0  # packets are lost now and then
_RISE: Final = 10.0  # times what was before
_FEW_ERRORS: Final = 10  # that links correct by themselves
_SKEW_US: Final = 1_000_000  # from there on timeouts and tokens go wrong; less only confuses who reads logs
_FEW: Final = 4


@evidence("faults", "quiet")
def fabric_faults(case: Case) -> Answer:
    """Errors that came or rose; a steady few are no cause."""
    notes = [one for one in case.file.notes if one.kind == "slow-link"]
    told = [(name, one) for name in _FIGURES for one in case.series(name) if one.values]
    worst = sorted(
        ((now, name, one) for name, one in told if (now := _risen(name, one)) is not None),
        key=lambda found: -found[0],
    )
    if not worst and not notes:
        if not told:
            return Answer.unknown(
                Missing("errors of the links of its nodes", "have node-exporter scraped on its nodes")
            )
        text = f"{len(told)} counters of links and networks have not risen"
        return Answer(("quiet",), (Fact(text, "counters of the nodes"),))
    facts = [_fact(name, now, one) for now, name, one in worst[:_FEW]]
    facts += [Fact(f"rank {one.rank}: {one.text}", "note slow-link", one.t_ms) for one in notes[:_FEW]]
    node = next((_node(one) for _, _, one in worst if _node(one)), None)
    where = node or "the nodes of the job"
    names = {"link": facts[0].text, "link_node": where}
    confidence = 0.85 if worst else 0.7
    return Answer(("faults",), tuple(facts), confidence, names, subject=Subject(node=node))


def _risen(figure: str, series: CaseSeries) -> float | None:
    """What it is at the end, where that is more than it was."""
    if figure == "nvlink-errors":  # a counter
        grown = series.values[-1] - series.values[0]
        return grown if grown >= _FEW_ERRORS else None
    highest, then = max(late(series)), earlier(series)
    if series.labels.get("fault") in _GRAVE:
        return highest if highest > 0 else None
    usual = median(then) if then else 0.0
    return highest if highest >= _PER_SECOND and highest >= _RISE * usual else None


def _node(series: CaseSeries) -> str | None:
    return series.labels.get("node") or series.labels.get("Hostname")


def _fact(figure: str, now: float, series: CaseSeries) -> Fact:
    what = series.labels.get("fault") or series.labels.get("kind") or "errors"
    unit = "" if figure == "nvlink-errors" else " a second"
    text = f"{_node(series) or 'a node'}: {what} {now:.3g}{unit}"
    return Fact(text, figure.replace("-", " "), series.t_ms[-1] if series.t_ms else None)


@evidence("skewed", "agree")
def clocks_agree(case: Case) -> Answer:
    offsets = [one for one in case.lives if one.clock_offset_us is not None]
    if not offsets:
        return Answer.unknown(Missing("how far the clocks of its nodes are apart", "call trilens.init()"))
    worst = max(offsets, key=lambda one: abs(one.clock_offset_us or 0))
    apart_us = abs(worst.clock_offset_us or 0)
    fact = Fact(
        f"the clock of {rank_name(worst)} is {_length(apart_us)} from rank 0's", "the SDK's measurement"
    )
    if apart_us < _SKEW_US:
        return Answer(("agree",), (fact,))
    names = {"skew": _length(apart_us), "skewed": rank_name(worst), "skewed_node": worst.node or "its node"}
    return Answer(("skewed",), (fact,), 0.9, names, subject=rank_subject(worst))


def _length(us: int) -> str:
    return f"{us / 1e6:.1f} s" if us >= _SKEW_US else f"{us / 1000:.1f} ms"
