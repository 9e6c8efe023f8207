"""The scoreboard as tables."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from bench.detect.episodes import CALM, FAULTS
from bench.report import table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bench.detect.real_faults import RealOutcome
    from bench.detect.scoring import Outcome, Score

    Whose = Callable[[Outcome], Score | None]

_BEGIN: Final = "<!-- written by `make bench-detect ARGS=--write` -->"
_END: Final = "<!-- until here -->"
_SAID: Final[dict[str, Whose]] = {
    "Trilens, telemetry every 5 s": lambda one: one.trilens,
    "Trilens, every 30 s": lambda one: one.slow,
    "classic static rules": lambda one: one.classic,
}


class Figures(NamedTuple):
    episodes: int
    named: int
    false: int
    median_s: float | None
    p95_s: float | None
    cause: float | None
    rank: float | None

    @property
    def recall(self) -> float | None:
        return self.named / self.episodes if self.episodes else None

    @property
    def precision(self) -> float | None:
        said = self.named + self.false
        return self.named / said if said else None


def figures(outcomes: Sequence[Outcome], whose: Whose) -> Figures:
    scores = [(one, score) for one in outcomes if (score := whose(one)) is not None]
    named = [score for one, score in scores if one.is_fault and score.named_s is not None]
    times = [score.named_s for score in named if score.named_s is not None]
    ranked = [score for score in named if score.right_rank is not None]
    return Figures(
        sum(one.is_fault for one, _ in scores),
        len(named),
        sum(len(score.false) for _, score in scores),
        float(np.median(times)) if times else None,
        float(np.quantile(times, 0.95)) if times else None,
        sum(score.right_cause for score in named) / len(named) if named else None,
        sum(bool(score.right_rank) for score in ranked) / len(ranked) if ranked else None,
    )


def main_tables(outcomes: Sequence[Outcome], seed: int, every: int = 1) -> str:
    by_name: defaultdict[str, list[Outcome]] = defaultdict(list)
    for one in outcomes:
        by_name[_group(one.name)].append(one)
    faults, calm = [], []
    goals = {_group(one.name): one.goal for one in FAULTS}
    names = [*(one.name for one in FAULTS), *(one.name for one in CALM)]
    for name in dict.fromkeys(map(_group, names)):
        found = by_name.get(name)
        if not found:
            continue
        ours, slow, rules = (figures(found, whose) for whose in _SAID.values())
        if found[0].is_fault:
            faults.append(
                (
                    name, str(ours.episodes), goals[name], _share(ours.recall), _seconds(ours.median_s),
                    _seconds(ours.p95_s), _share(ours.cause), _share(ours.rank), _share(slow.recall),
                    _seconds(slow.median_s), _share(rules.recall), _seconds(rules.median_s),
                    _share(rules.cause), _share(rules.rank),
                )
            )  # fmt: skip
        else:
            at_30 = str(slow.false) if any(one.slow is not None for one in found) else "-"
            calm.append((name, str(len(found)), str(ours.false), at_30, str(rules.false)))
    head = (
        "what goes wrong", "episodes", "goal", "named", "median s", "95 % s", "right cause", "right rank",
        "30 s: named", "30 s: median s", "classic: named", "classic: median s", "classic: cause",
        "classic: rank",
    )  # fmt: skip
    calm_head = ("what only looks like it", "episodes", "false alarms", "at 30 s", "classic rules")
    return "\n\n".join(
        [
            f"Seed {seed}, {len(outcomes)} episodes" + (f": every {every}th." if every > 1 else "."),
            _summary(outcomes),
            table(head, faults),
            table(calm_head, calm) if calm else "",
        ]
    )


def _group(name: str) -> str:
    return "Xid, ten classes" if name.startswith("Xid ") else name


def _summary(outcomes: Sequence[Outcome]) -> str:
    rows = []
    fast = [one for one in outcomes if one.is_fast]
    for name, whose in _SAID.items():
        every, soon = figures(outcomes, whose), figures(fast, whose)
        rows.append(
            (
                name, _share(every.precision), _share(every.recall), str(every.false),
                _seconds(soon.median_s), _seconds(soon.p95_s), _share(soon.rank), _share(every.cause),
            )
        )  # fmt: skip
    head = (
        "who looks", "precision", "recall", "false alarms", "fast classes: median s", "95 % s",
        "fast classes: right rank", "right cause",
    )  # fmt: skip
    return table(head, rows)


def sweep_table(swept: Sequence[Outcome]) -> str:
    by_case: defaultdict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for one in swept:
        by_case[one.name, one.severity].append(one)
    rows = []
    for (name, severity), found in by_case.items():
        ours = figures(found, lambda one: one.trilens)
        bar = "█" * round(10 * (ours.recall or 0))
        rows.append(
            (name, severity, str(ours.episodes), _share(ours.recall), bar or "·", _seconds(ours.median_s))
        )
    if not rows:
        return ""
    return table(("what", "how bad", "episodes", "named", "", "median s"), rows)


def real_table(found: Sequence[RealOutcome]) -> str:
    by_what: defaultdict[str, list[RealOutcome]] = defaultdict(list)
    for one in found:
        by_what[one.what].append(one)
    rows = []
    for what, runs in by_what.items():
        times = [one.named_s for one in runs if one.named_s is not None]
        said = Counter(one.said or "not named" for one in runs)
        rows.append(
            (
                what, str(len(runs)), str(len(times)),
                ", ".join(text if len(said) == 1 else f"{text} x {count}" for text, count in said.items()),
                f"{np.median(times):.0f}" if times else "-", f"{max(times):.0f}" if times else "-",
                str(sum(one.right_rank for one in runs)), str(sum(one.before for one in runs)),
            )
        )  # fmt: skip
    head = (
        "real gloo processes: one rank of three", "runs", "named", "what was said", "median s", "slowest s",
        "right rank", "said before it happened",
    )  # fmt: skip
    return table(head, rows)


def details(outcomes: Sequence[Outcome]) -> str:
    lines = []
    for one in outcomes:
        for name, whose in _SAID.items():
            score = whose(one)
            if score is None or name.startswith("classic"):
                continue
            missed = one.is_fault and score.named_s is None
            wrong = one.is_fault and not missed and (not score.right_cause or score.right_rank is False)
            if missed or wrong or score.false:
                what = "missed" if missed else "wrongly named" if wrong else "false alarm"
                lines.append(f"{what}: {one.key} ({name})")
                lines += [f"    {said}" for said in score.false]
        if one.defects:
            lines.append(f"DEFECT: {one.key}: a detector failed {one.defects} times")
    return "\n".join(lines)


def last_line(outcomes: Sequence[Outcome]) -> str:
    every = figures(outcomes, lambda one: one.trilens)
    soon = figures([one for one in outcomes if one.is_fast], lambda one: one.trilens)
    return (
        f"detect: precision {_number(every.precision, 3)} recall {_number(every.recall, 3)} "
        f"median_s {_number(soon.median_s, 1)} p95_s {_number(soon.p95_s, 1)} rank {_number(soon.rank, 3)}"
    )


def write(sections: Sequence[str], root: Path) -> None:
    """Tables take the place of those that stand there."""
    text = "\n\n".join(section for section in sections if section)
    for name in ("docs/scoreboard.md", "bench/RESULTS.md"):
        path = root / name
        before = path.read_text()
        between = re.compile(f"{re.escape(_BEGIN)}.*?{re.escape(_END)}", re.DOTALL)
        assert between.search(before), f"{name} has no place for the tables"
        path.write_text(between.sub(lambda _: f"{_BEGIN}\n\n{text}\n\n{_END}", before))


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
