"""Lineage as people read it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import typer

from trilens.cli.doubt_text import doubt_text
from trilens.cli.folding import WHOLE, one_or_count, ranges, rows_of
from trilens.cli.plain_table import print_table
from trilens.cli.run_cells import size_text, steps_text, values_text
from trilens.cli.times import show_brief, show_moment

if TYPE_CHECKING:
    from collections.abc import Iterable

_UNKNOWN = "-"
_IDS = 8  # so many samples of a batch are shown


def samples_of(batch: dict[str, Any]) -> list[int | str]:
    """All of them; none where they are unknown."""
    if batch["range"] is not None:
        first, count, stride = batch["range"]
        return [first + stride * at for at in range(count)]
    return [*batch["ids"], *batch["names"]]


def show_step(found: dict[str, Any]) -> None:
    typer.echo(f"step {found['step']} of {found['run']}")
    attempts = {one["attempt"] for one in found["ranks"]}
    if len(attempts) > 1:
        kept = [one["attempt"] for one in found["ranks"] if one["kept"]]
        counts = f"; what counts is attempt {ranges(kept)}" if kept else "; none of them counts"
        typer.echo(f"  done in attempts {ranges(attempts)}{counts}")
    typer.echo("\nranks")
    groups = rows_of(found["ranks"], lambda one: (one["attempt"], one["kept"]))
    print_table(
        ["attempt", "rank", "counts", "start", "took", "samples", "node", "pod", "gpu", "values"],
        [_ranks_row(group) for group in groups],
        may_go=("pod", "samples", "start"),
        folds=("values",),
    )
    _phases([one for one in found["ranks"] if one["kept"]] or found["ranks"])
    batches = [batch for one in found["ranks"] for batch in one["batches"]]
    typer.echo("\nbatches")
    if batches:
        _batches_table(batches)
    else:
        typer.echo("  it told of none: see run.data() and run.batch()")


def _ranks_row(group: list[dict[str, Any]]) -> list[str]:
    one = group[0]
    took = sorted(each["duration_us"] / 1e6 for each in group)
    samples = [each["samples"] for each in group if each["samples"] is not None]
    return [
        str(one["attempt"]),
        ranges(each["rank"] for each in group),
        "yes" if one["kept"] else "no, thrown away",
        show_moment(min(each["start_us"] for each in group) / 1e6),
        _span(took),
        str(sum(samples)) if samples else _UNKNOWN,
        one_or_count((each["node"] or None for each in group), "nodes"),
        one_or_count((each["pod"] for each in group), "pods"),
        one_or_count((gpu for each in group for gpu in each["gpus"]), "GPUs"),
        values_text(one["values"]) if len(group) == 1 else f"of {len(group)} ranks: --json has them",
    ]


def _phases(ranks: list[dict[str, Any]]) -> None:
    host: defaultdict[str, list[float]] = defaultdict(list)
    device: defaultdict[str, list[float]] = defaultdict(list)
    for one in ranks:
        for name, us in one["phases_us"].items():
            host[name].append(us / 1e6)
        for name, us in one["device_phases_us"].items():
            device[name].append(us / 1e6)
    if not host and not device:
        return
    typer.echo("\nphases")
    names = dict.fromkeys([*host, *device])
    print_table(
        ["phase", "program", "gpu"],
        [[name, _span(sorted(host[name])), _span(sorted(device[name]))] for name in names],
    )


def _span(seconds: list[float]) -> str:
    """Over ranks: all alike, or the least and the most."""
    if not seconds:
        return _UNKNOWN
    least, most = show_brief(seconds[0]), show_brief(seconds[-1])
    return least if least == most else f"{least}..{most}"


def _batches_table(found: list[dict[str, Any]]) -> None:
    batches = found[:WHOLE]
    print_table(
        ["attempt", "step", "rank", "dataset", "shard", "epoch", "size", "samples", "digest"],
        [
            [
                str(one["attempt"]),
                str(one["step"]),
                str(one["rank"]),
                one["dataset"] or _UNKNOWN,
                one["shard"] or "",
                _text(one["epoch"]),
                _text(one["size"]),
                _samples_text(one),
                one["digest"] or "",
            ]
            for one in batches
        ],
        may_go=("digest", "shard", "epoch"),
        folds=("samples",),
    )
    if len(found) > len(batches):
        typer.echo(f"and {len(found) - len(batches)} more batches; --json has all")


def _samples_text(batch: dict[str, Any]) -> str:
    if batch["unknown"] is not None:
        return f"unknown: {batch['unknown']}"
    if batch["range"] is not None:
        first, count, stride = batch["range"]
        if count <= 1:
            return str(first) if count else ""
        every = "" if stride == 1 else f", every {stride}"
        return f"{first}..{first + stride * (count - 1)}{every}"
    found = samples_of(batch)
    more = f" and {len(found) - _IDS} more" if len(found) > _IDS else ""
    return ", ".join(map(str, found[:_IDS])) + more


def show_contents(found: dict[str, Any]) -> None:
    one = found["checkpoint"]
    typer.echo(f"checkpoint of step {one['step']} of {found['run']}")
    took = "" if one["seconds"] is None else f" in {show_brief(one['seconds'])}"
    written = "written" if one["ok"] else "not written whole"
    typer.echo(
        f"  {written}{took} at {show_moment(one['start_ms'] / 1000)} in "
        f"attempt {ranges(one['attempts'])} by {_ranks(one['ranks'])}, {size_text(one['size_bytes'])}"
    )
    for path in one["paths"][:_IDS]:
        typer.echo(f"  {path}")
    for other in found["others"]:
        typer.echo(
            f"  another of this step was written in attempt {ranges(other['attempts'])} "
            f"at {show_moment(other['start_ms'] / 1000)}" + ("" if other["ok"] else ", badly")
        )
    if found["doubts"]:
        typer.echo("\ndoubts")
        for doubt in found["doubts"]:
            typer.echo(f"  {doubt_text(doubt)}")
    _parts("inside", found["parts"], found["run"])
    _parts("done and thrown away", found["thrown_away"], found["run"])
    if found["datasets"]:
        typer.echo("\nsamples")
        print_table(
            ["dataset", "shard", "batches", "samples", "unknown batches"],
            [
                [share["dataset"] or _UNKNOWN, share["shard"] or "", *_counts(share)]
                for share in found["datasets"]
            ],
        )
    else:
        typer.echo("\nsamples\n  no batch was told of: see run.data() and run.batch()")
    if found["repeated"] is None:
        typer.echo("whether samples were seen twice was not looked for: there are too many batches")
    for again in found["repeated"] or []:
        examples = ", ".join(map(str, again["examples"]))
        name = "/".join(part for part in (again["dataset"], again["shard"]) if part) or "the dataset"
        text = f"{again['samples']} samples of {name} were seen more than once"
        if again["epoch"] is None:
            typer.echo(f"{text}, such as {examples}; no epoch was told, so it may be in several")
        else:
            typer.echo(f"{text} in epoch {again['epoch']}, such as {examples}")


def _counts(share: dict[str, Any]) -> tuple[str, str, str]:
    return str(share["batches"]), str(share["samples"]), str(share["unknown"])


def _parts(title: str, parts: list[dict[str, Any]], run: str) -> None:
    if not parts:
        return
    typer.echo(f"\n{title}")
    others = any(part["run"] != run for part in parts)
    print_table(
        [*(["run"] if others else []), "attempt", "steps"],
        [
            [
                *([part["run"]] if others else []),
                ranges(part["attempts"]),
                steps_text(part["first_step"], part["last_step"]),
            ]
            for part in parts
        ],
    )


def show_sightings(sample: str, found: list[dict[str, Any]]) -> None:
    if not found:
        typer.echo(f"no batch with sample {sample} is known", err=True)
        return
    print_table(
        ["run", "step", "rank", "attempt", "dataset", "shard", "epoch", "counts", "checkpoints"],
        [
            [
                one["run"],
                str(one["step"]),
                str(one["rank"]),
                str(one["attempt"]),
                one["dataset"] or _UNKNOWN,
                one["shard"] or "",
                _text(one["epoch"]),
                "yes" if one["kept"] else "no, thrown away",
                _checkpoints_text(one["checkpoints"]),
            ]
            for one in found
        ],
        may_go=("shard", "epoch"),
    )


def _checkpoints_text(steps: list[int]) -> str:
    if len(steps) <= _IDS:
        return ", ".join(map(str, steps)) or "none"
    return f"{', '.join(map(str, steps[:2]))}, ... {steps[-1]} ({len(steps)})"


def show_spikes(found: dict[str, Any]) -> None:
    if not found["spikes"]:
        typer.echo(f"no spike of {found['value']} in {found['points']} points", err=True)
        return
    more = found["found"] - len(found["spikes"])
    which = f", the {len(found['spikes'])} strongest" if more > 0 else ""
    spikes = "1 spike" if found["found"] == 1 else f"{found['found']} spikes"
    typer.echo(f"{spikes} of {found['value']} in {found['points']} points{which}")
    for number, one in enumerate(found["spikes"]):
        steps = steps_text(one["step"], one["last_step"])
        typer.echo(
            f"\n{number + 1}. step {steps}, attempt {one['attempt']}: {_spike_text(found['value'], one)}"
        )
        if one["batches"]:
            _batches_table(one["batches"])
        else:
            typer.echo("  no batch of these steps was told of")
        if one["left_out"]:
            typer.echo(f"and {one['left_out']} more batches of other ranks")
        if not one["of_all_ranks"]:
            typer.echo(f"only those of rank {one['rank']}: the job has many ranks")
    if found["common"]:
        typer.echo("\nbefore several of them")
        print_table(
            ["dataset", "shard", "what", "spikes"],
            [
                [
                    one["dataset"] or _UNKNOWN,
                    one["shard"] or "",
                    f"sample {one['sample']}" if one["digest"] is None else f"batch {one['digest']}",
                    ", ".join(str(number + 1) for number in one["spikes"]),
                ]
                for one in found["common"]
            ],
        )


def _spike_text(value: str, one: dict[str, Any]) -> str:
    if one["spreads"] is None:
        return f"{value} is {one['peak']} on rank {one['rank']} at step {one['peak_step']}"
    return (
        f"{value} {one['peak']:.4g} on rank {one['rank']} at step {one['peak_step']}, "
        f"{one['spreads']:.0f} spreads above the median {one['median']:.4g}"
    )


def _ranks(numbers: Iterable[int]) -> str:
    every = [*numbers]
    return f"rank{'' if len(every) == 1 else 's'} {ranges(every)}"


def _text(value: int | None) -> str:
    return _UNKNOWN if value is None else str(value)
