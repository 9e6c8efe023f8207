"""The labelled set as a table."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from bench.report import RESULTS, merged, table
from bench.verdicts.labelled import Mark
from bench.verdicts.public import is_past
from trilens.model.verdict import SURE_FROM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.verdicts.labelled import Case

PUBLIC: Final = "public"
_HEAD: Final = (
    "cases of", "cases", "right", "cannot tell", "unsure and wrong", "confident and wrong", "right rank",
)  # fmt: skip


def section(cases: Sequence[Case], seed: int) -> str:
    by_group: defaultdict[str, list[Case]] = defaultdict(list)
    for one in cases:
        by_group[one.group].append(one)
    own = {group: found for group, found in by_group.items() if not group.startswith(PUBLIC)}
    public = {group: found for group, found in by_group.items() if group.startswith(PUBLIC)}
    rows = [_row(group, found) for group, found in own.items()]
    rows.append(_row("**all of these**", [one for found in own.values() for one in found]))
    apart = "Public incidents, scored apart: the lines that a thread shows, against how it was settled."
    return "\n\n".join(
        [
            "## Causes",
            "`trilens why`, `nccl`, `flight` and `xid` on cases of which the cause is known "
            f"([which](../docs/why.md#how-often-it-is-right)); simulated ones with seed {seed}. Goals: at "
            "least 95 % right, none confident and wrong.",
            table(_HEAD, rows),
            apart,
            table(_HEAD, [_row(group, found) for group, found in public.items()]),
            "Not right:",
            "\n".join(f"- {told(one)}" for one in cases if one.mark is not Mark.RIGHT) or "- none",
        ]
    )


def _row(group: str, cases: Sequence[Case]) -> tuple[str, ...]:
    marks = [one.mark for one in cases]
    ranked = [named for one in cases if (named := one.names_the_rank) is not None]
    counts = [str(marks.count(mark)) for mark in Mark]
    return (group, str(len(cases)), *counts, f"{sum(ranked)} of {len(ranked)}" if ranked else "-")


def told(case: Case) -> str:
    first = case.first
    who = f", rank {', '.join(map(str, first.ranks))}" if first.ranks else ""
    right = " or ".join(case.label.causes)
    blamed = f", rank {', '.join(map(str, case.label.ranks))}" if case.label.ranks else ""
    said = f"{first.cause or 'nothing'}{who} ({first.confidence:.2f})"
    also = [
        one for one in case.said[1:] if one.confidence >= SURE_FROM and one.cause not in case.label.causes
    ]
    said += "".join(f" and {one.cause} ({one.confidence:.2f})" for one in also)
    return f"{case.mark}: {case.group}, {case.name}: said {said}, right is {right}{blamed}"


def as_objects(cases: Iterable[Case]) -> list[dict[str, Any]]:
    return [
        {
            "group": one.group,
            "case": one.name,
            "mark": one.mark.value,
            "right": sorted(one.label.causes),
            "ranks": sorted(one.label.ranks),
            "names_the_rank": one.names_the_rank,
            "said": [
                {
                    "cause": said.cause,
                    "confidence": said.confidence,
                    "ranks": sorted(said.ranks),
                    "text": said.text,
                }
                for said in one.said
            ],
        }
        for one in cases
    ]


def last_line(cases: Sequence[Case]) -> str:
    own = [one for one in cases if not one.group.startswith(PUBLIC)]
    public = [one for one in cases if one.group.startswith(PUBLIC) and not is_past(one.group)]
    first = [one for one in cases if is_past(one.group)]
    return f"why: cases {_counts(own)} public {_counts(public)} at_first_sight {_counts(first)}"


def _counts(cases: Sequence[Case]) -> str:
    marks = [one.mark for one in cases]
    right, wrong = marks.count(Mark.RIGHT), marks.count(Mark.SURE_WRONG)
    return f"{len(marks)} right {right} confident_wrong {wrong}"


def write(text: str) -> None:
    RESULTS.write_text(merged(RESULTS.read_text(), [text]))
