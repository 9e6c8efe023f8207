"""`trilens demo`: a server with a cluster that does not exist."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trilens.cli.demo_line import to_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.over_http.described import Described
    from trilens.simulate.scenario import Scenario

_SCENARIO = "demo"
_GPUS = 64
_MOST_PAST_GPUS = 256  # of more, their first hour would take longer than anybody waits
TRY_AFTER_THE_NIGHT = (
    ("what went wrong in the night, by cause, and what each has cost", "incidents --all"),
    ("where the money went", "cost --from -12h"),
    ("what of that was for nothing, and what to do about it", "cost why --from -12h"),
    ("which team has spent more than its budget", "cost now"),
    ("the job of 64 GPUs that stands since twelve past: the cause, and the way to it", "why llm-pretrain-1"),
    ("the one in which one rank is missing", "why moe-ablation-1"),
    ("the one that goes on without its GPUs", "why tts-train-1"),
    ("why pods wait beside free nodes", "why protein-fold-1"),
    ("why a service lets people wait", "why chat-1"),
    ("what training programs tell: step, loss, time left, and what hangs", "runs"),
    ("the GPUs, and who holds them", "gpus"),
    ("all of it on one screen, live", "top"),
)
TRY = (
    ("the jobs of the cluster, and what each of them does now", "workloads"),
    ("one of them: its pods, ranks, GPUs and phases", "show llm-pretrain-1"),
    ("what is wrong, by cause, with what to do (a minute in; more goes wrong later)", "incidents"),
    ("the same one by one, with what it rests on", "findings"),
    ("why it hangs: the questions that were asked, their answers, what is missing", "why vision-finetune-1"),
    ("what its training programs tell: step, loss, time left, and what hangs", "runs"),
    ("what is inside a checkpoint, over all restarts", "lineage llm-pretrain-1 --checkpoint 2000"),
    ("the GPUs, and who holds them", "gpus"),
    ("what it costs, by team and what it was spent on (the first is booked within a minute)", "cost"),
    ("what of that was for nothing, and what to do about it", "cost why"),
    ("what the kernels of its nodes complained about", "events"),
    (
        "GPUs that look busy and do no work: a hung job",
        "query 'DCGM_FI_DEV_POWER_USAGE < 200 and on (UUID) DCGM_FI_DEV_GPU_UTIL > 95'",
    ),
    ("the last that it wrote", "logs vision-finetune-1"),
    ("the loss of each training job", "query 'avg by (job_name) (training_loss)'"),
    (
        "power by team, in watts, from the recording rules (which take half a minute)",
        "query 'sum by (team) (trilens:gpu_power:watts)'",
    ),
)


def demo(
    gpus: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=8,
            max=10_000,
            help="Not the night: a cluster of this size, an hour into its day. With --once, its size.",
        ),
    ] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:9333",
    interval: Annotated[
        str, typer.Option(metavar="DURATION", help="How often the cluster is scraped.")
    ] = "5s",
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed makes the same cluster.")] = 0,
    alertmanager: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Send alerts to this Alertmanager; several of one cluster."),
    ] = None,
    fault: Annotated[
        str | None,
        typer.Option(
            metavar="NAME[,NAME]",
            help="Let this go wrong, follow its alert until it is resolved, and end: all, quick (those that "
            "take two minutes at most), or names of --list-faults.",
        ),
    ] = None,
    list_faults: Annotated[
        bool, typer.Option("--list-faults", help="No server: what --fault can show, and its alerts.")
    ] = False,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="No server: go through a simulated night, and print what it cost and why."
        ),
    ] = False,
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare",
            help="No server: make the night that the demo opens on, and keep it, where that is not done yet.",
        ),
    ] = False,
    into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --prepare: keep it there, to be shipped."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="With --fault, --list-faults or --once: print JSON.")
    ] = False,
) -> None:
    """Run a server with a simulated GPU cluster.

    Its data lies in a temporary directory, and is gone when it ends. It opens on the morning after a bad
    night, which comes with Trilens or is made by --prepare in some minutes; where there is none, and with
    --gpus, the cluster has an hour behind it.
    With --fault the cluster has a job and nodes for each fault, and it ends by itself; exit code 1 where an
    alert did not fire, named something else, or was not resolved.
    With --once there is no server: a night of 256 GPUs (or --gpus) is followed faster than time.
    """
    _check_together(gpus, fault, into, json=json, listed=list_faults, once=once, prepare=prepare)
    if prepare:
        from trilens.cli.demo_kept import prepare_night

        typer.echo(f"kept in {prepare_night(seed, into)}")
    elif once:
        from trilens.cli.demo_night import run_night

        run_night(gpus, seed, as_json=json)
    elif list_faults:
        from trilens.cli import demo_faults

        demo_faults.list_faults(as_json=json)
    else:
        _serve(gpus, seed, fault, listen, interval, alertmanager or (), as_json=json)


def _serve(
    gpus: int | None,
    seed: int,
    fault: str | None,
    listen: str,
    interval: str,
    alertmanagers: "Sequence[str]",
    *,
    as_json: bool,
) -> None:
    """Until it is interrupted, or what it shows is over."""
    from trilens.cli.demo_server import DemoServer

    # That targets of a fault are down is what is shown.
    server = DemoServer(listen, interval, alertmanagers, "warning" if fault is None else "error")
    server.check()
    if fault is not None:
        from trilens.cli.demo_faults import show_faults
        from trilens.cli.demo_stage import chosen

        if not show_faults(server, chosen(fault), seed, as_json=as_json):
            raise typer.Exit(1)
        return
    if gpus is None:
        from trilens.cli.demo_kept import night_to_open_on

        night = night_to_open_on(seed)
        if night is not None:
            server.run_night(night, seed, _introduce_morning)
            return
    size = gpus or _GPUS

    def past(cluster: "Described") -> "Scenario | None":
        from trilens.simulate.scenario import load_scenario

        return load_scenario(_SCENARIO).sized(size) if cluster.gpus <= _MOST_PAST_GPUS else None

    server.run(["--scenario", _SCENARIO, "--gpus", str(size)], _introduce, past, seed)


def _check_together(
    gpus: int | None,
    fault: str | None,
    into: Path | None,
    *,
    json: bool,
    listed: bool,
    once: bool,
    prepare: bool,
) -> None:
    chosen = {
        "--fault": fault is not None,
        "--list-faults": listed,
        "--once": once,
        "--prepare": prepare,
    }
    named = [name for name, is_given in chosen.items() if is_given]
    if len(named) > 1:
        raise typer.BadParameter(f"does not go with {named[1]}", param_hint=named[0])
    if json and named in ([], ["--prepare"]):
        raise typer.BadParameter("goes with --fault, --list-faults or --once", param_hint="--json")
    if into is not None and not prepare:
        raise typer.BadParameter("goes with --prepare", param_hint="--into")
    if gpus is not None and (listed or prepare or fault is not None):
        raise typer.BadParameter(f"{named[0]} has a cluster of its own", param_hint="--gpus")


def _introduce_morning(url: str, cluster: "Described") -> None:
    typer.echo(
        f"Trilens runs at {url}: {cluster.gpus} simulated GPUs on {cluster.nodes} nodes, after a bad night. "
        "Ctrl-C ends it.\n"
    )
    _suggest("Open it in a browser, or try in another terminal:", TRY_AFTER_THE_NIGHT, url)


def _introduce(url: str, cluster: "Described") -> None:
    typer.echo(
        f"Trilens runs at {url} with a simulated cluster of {cluster.gpus} GPUs on {cluster.nodes} nodes. "
        "Ctrl-C ends it.\n"
    )
    _suggest("Try, in another terminal (the first samples come within seconds):", TRY, url)


def _suggest(how: str, commands: "Sequence[tuple[str, str]]", url: str) -> None:
    typer.echo(f"{how}\n")
    for meaning, arguments in commands:
        typer.echo(f"  # {meaning}\n  {to_type(arguments, url)}\n")
