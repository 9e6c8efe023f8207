"""`trilens lineage`: what went into a model."""

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from trilens.cli.completion import run_names
from trilens.cli.options import AsList, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.cli.client import Client

_PAGE = "1000"


def lineage(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="An id or its beginning, a name, or EXPERIMENT/NAME; with --sample it may be left out.",
            autocompletion=run_names,
        ),
    ] = None,
    step: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="A step: samples, GPUs, phases and values of each rank."),
    ] = None,
    rank: Annotated[int | None, typer.Option(metavar="R", min=0, help="Of --step, only this rank.")] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="N|PATH", help="A checkpoint, by step or path: what is inside."),
    ] = None,
    samples: Annotated[
        bool,
        typer.Option(
            "--samples", help="Of --step or --checkpoint, every batch with its samples, a JSON object a line."
        ),
    ] = False,
    sample: Annotated[
        str | None, typer.Option(metavar="ID", help="A sample: which steps and checkpoints saw it.")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of --sample, only in this dataset.")
    ] = None,
    before_spike: Annotated[
        bool,
        typer.Option(
            "--before-spike", help="Where a value jumped or was not finite, and the batches before."
        ),
    ] = False,
    value: Annotated[str, typer.Option(metavar="NAME", help="Of --before-spike, the value.")] = "loss",
    window: Annotated[
        int, typer.Option(metavar="K", min=0, help="Of --before-spike, so many steps before it.")
    ] = 3,
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """Ask which samples a step or a checkpoint saw, who saw a sample, and what came before a spike."""
    from trilens.cli import lineage_text
    from trilens.cli.client import Client
    from trilens.cli.run_naming import run_meant
    from trilens.model.errors import RequestError

    asked = [step is not None, checkpoint is not None, sample is not None, before_spike]
    if sum(asked) != 1:
        raise RequestError("ask one question", hint="--step, --checkpoint, --sample or --before-spike")
    if run is None and sample is None:
        raise RequestError("name a run", hint="trilens runs lists them; --sample alone asks about all runs")
    with Client(server) as client:
        run_id = run_meant(client, run) if run is not None else None
        path = f"/api/runs/{quote(run_id or '')}"
        if sample is not None:
            found = _sightings(client, sample, run_id, dataset)
            _print(found, as_json, lambda found: lineage_text.show_sightings(sample, found))
        elif before_spike:
            answer = client.get(f"{path}/spikes", {"value": value, "window": str(window)})
            _print([answer["data"]], as_json, lambda found: lineage_text.show_spikes(found[0]))
        elif step is not None:
            at_step = _step(client, path, step, rank)
            if samples:
                _lines(batch for one in at_step["ranks"] for batch in one["batches"])
            else:
                _print([at_step], as_json, lambda found: lineage_text.show_step(found[0]))
        else:
            assert checkpoint is not None
            where, params = checkpoint_meant(client, path, checkpoint)
            if samples:
                _lines(_batches(client, where, params))
            else:
                contents = client.get(where, params)["data"]
                _print([contents], as_json, lambda found: lineage_text.show_contents(found[0]))


def _sightings(client: "Client", sample: str, run: str | None, dataset: str | None) -> list[dict[str, Any]]:
    from trilens.cli.answer import show_notes

    filters = {name: text for name, text in (("run", run), ("dataset", dataset)) if text is not None}
    answer = client.get(f"/api/samples/{quote(sample, safe='')}", filters)
    show_notes(answer)
    found: list[dict[str, Any]] = answer["data"]
    return found


def _print(found: list[dict[str, Any]], as_json: bool, show: Any) -> None:
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        show(found)


def _step(client: "Client", path: str, step: int, rank: int | None) -> dict[str, Any]:
    """All pages as one."""
    params = {"rank": str(rank)} if rank is not None else {}
    found: dict[str, Any] = client.get(f"{path}/steps/{step}", params)["data"]
    while found["next"] is not None:
        more = client.get(f"{path}/steps/{step}", {**params, "next": found["next"]})["data"]
        found = {**more, "ranks": [*found["ranks"], *more["ranks"]]}
    return found


def checkpoint_meant(client: "Client", path: str, written: str) -> tuple[str, dict[str, str]]:
    """By its step, or as the last that was written at a path."""
    from trilens.model.errors import NotFound

    if written.isascii() and written.isdecimal():
        return f"{path}/checkpoints/{written}", {}
    known = client.get(f"{path}/checkpoints", {"path": written})["data"]
    if not known:
        raise NotFound(f"no checkpoint at {written!r} is known", hint="trilens runs show lists them")
    last = max(known, key=lambda one: (one["ok"], one["start_ms"]))
    return f"{path}/checkpoints/{last['step']}", {"stretch": str(max(0, last["stretch"]))}


def _batches(client: "Client", where: str, params: dict[str, str]) -> "Iterator[dict[str, Any]]":
    more: str | None = ""
    while more is not None:
        page = client.get(f"{where}/batches", {**params, "limit": _PAGE, "next": more})["data"]
        yield from page["batches"]
        more = page["next"]


def _lines(batches: "Iterator[dict[str, Any]]") -> None:
    """Each batch with all its samples written out, and flushed as it comes."""
    from trilens.cli.lineage_text import samples_of

    whose = ("run", "step", "rank", "attempt", "dataset", "shard", "epoch", "size", "digest", "unknown")
    for batch in batches:
        line = {**{name: batch[name] for name in whose}, "samples": samples_of(batch)}
        sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
    sys.stdout.flush()
