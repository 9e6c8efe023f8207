"""`trilens experiments`: experiments and their runs, from the SDK and from every tracker alike."""

import time
from typing import Annotated

import typer

from trilens.cli.completion import experiment_names
from trilens.cli.options import AsCsv, AsList, Server


def experiments(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="EXPERIMENT", help="Only this one, run by run.", autocompletion=experiment_names
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The metric of the runs [default: a validation loss, else a loss]."
        ),
    ] = None,
    maximize: Annotated[
        bool | None,
        typer.Option("--maximize/--minimize", help="Which way is better [default: by the metric's name]."),
    ] = None,
    least_gain: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", min=0, max=1, help="A new best counts when it is better by this [default: 0.01]."
        ),
    ] = None,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List experiments, or the runs of one: what the SDK, MLflow, W&B and TensorBoard know, side by side.

    Of one experiment: metric, cost and utilisation of each run, which are the best for their money, and
    which had stopped improving.
    """
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client
    from trilens.cli.csv_lines import apart
    from trilens.cli.experiment_text import show_all, show_runs
    from trilens.cli.listing import is_printed

    asked = {
        "experiment": name,
        "metric": metric,
        "maximize": None if maximize is None else str(maximize).lower(),
        "least_gain": None if least_gain is None else str(least_gain),
    }
    with Client(server) as client:
        answer = client.get(
            "/api/experiments", {key: text for key, text in asked.items() if text is not None}
        )
    found = answer["data"]
    show_notes(answer)
    if is_printed(found, as_json=as_json, as_csv=as_csv, lines=apart(found, "runs")):
        pass
    elif not found:
        typer.echo(
            f"no experiment {name}; trilens experiments lists them" if name is not None else "no experiments",
            err=True,
        )
    elif name is None:
        show_all(found, time.time())
    else:
        show_runs(found[0]["runs"], time.time())
        if metric is not None and all(run["metric"] is None for run in found[0]["runs"]):
            known = sorted({told for run in found[0]["runs"] for told in run["metrics"]})
            hint = f"; their last values are of {', '.join(known)}" if known else ""
            typer.echo(f"warning: no run of {name} told of {metric}{hint}", err=True)
    if name is not None and not found:
        raise typer.Exit(1)
