"""`trilens demo`: a server with a cluster that does not exist."""

import shutil
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.over_http.described import Described

_CLUSTER = _SCENARIO = "demo"
_GPUS = 64
_MOST_PAST_GPUS = 256  # of more, their first hour would take longer than anybody waits
TRY = (
    ("the jobs of the cluster, and what each of them does now", "workloads"),
    ("one of them: its pods, ranks, GPUs and phases", "show llm-pretrain-1"),
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
        typer.Option(metavar="N", min=8, max=10_000, help="How large the cluster is.", show_default="64"),
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
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="No server: go through a simulated night, and print what it cost and why."
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="With --once: print JSON.")] = False,
) -> None:
    """Run a server with a simulated GPU cluster.

    Its data lies in a temporary directory, and is gone when it ends.
    With --once there is no server: a night of 256 GPUs (or --gpus) is followed faster than time.
    """
    if json and not once:
        raise typer.BadParameter("goes with --once", param_hint="--json")
    if once:
        from trilens.cli.demo_night import run_night

        run_night(gpus, seed, as_json=json)
        return
    from tempfile import TemporaryDirectory

    import uvloop  # noqa: F401 - an install without the server is told here, before anything starts

    from trilens.cli.times import read_duration
    from trilens.settings.load import validate
    from trilens.settings.tree import Settings
    from trilens.simulate.over_http.process import SimulatorFailed, SimulatorProcess

    read_duration(interval, "--interval")
    validate(
        {"server": {"listen": listen}, **_alerting(alertmanager or ())},
        origins={"server.listen": "--listen", "alerting.receivers": "--alertmanager"},
    )
    simulated = ["--scenario", _SCENARIO, "--gpus", str(gpus or _GPUS), "--seed", str(seed)]
    with TemporaryDirectory(prefix="trilens-demo-") as directory, SimulatorProcess(simulated) as simulator:
        from trilens.serve.run import run_server  # takes as long as the simulator takes to come up

        try:
            cluster = simulator.described()
        except SimulatorFailed as e:
            typer.echo(f"trilens: {e}", err=True)
            raise typer.Exit(1) from e

        def load() -> Settings:
            tree = {**_settings(cluster, directory, listen, interval), **_alerting(alertmanager or ())}
            return validate(tree, origins={"server.listen": "--listen"})

        if cluster.gpus <= _MOST_PAST_GPUS:
            from trilens.serve.rehearsal.past import keep_past
            from trilens.simulate.scenario import load_scenario

            scenario = load_scenario(_SCENARIO).sized(gpus or _GPUS)
            keep_past(scenario, seed, cluster.born_ms, cluster.began_ms, load().storage, _CLUSTER)

        def announce(url: str, _: Settings) -> None:
            simulator.send_records_to(url)
            _introduce(url, cluster)

        run_server(load, announce)


def _settings(cluster: "Described", directory: str, listen: str, interval: str) -> dict[str, Any]:
    jobs: list[dict[str, Any]] = [
        {"job_name": "dcgm", **_found(cluster.dcgm_targets)},
        {"job_name": "programs", **_found(cluster.program_targets)},
    ]
    if not listen.endswith(":0"):
        jobs.append({"job_name": "trilens", "static_configs": [{"targets": [listen]}]})
    return {
        "server": {"listen": listen, "log_level": "warning"},
        "storage": {"data_dir": f"{directory}/data"},
        "kubernetes": {"clusters": {_CLUSTER: {"kubeconfig": cluster.kubeconfig}}},
        "agents": {"scrape_config": _found(cluster.agent_targets)},
        "scrape": {"global": {"scrape_interval": interval}, "scrape_configs": jobs},
    }


def _alerting(alertmanagers: "Sequence[str]") -> dict[str, Any]:
    receivers = {"alertmanager": {"alertmanager": {"urls": alertmanagers}}} if alertmanagers else {}
    return {"alerting": {"receivers": receivers}}


def _found(url: str) -> dict[str, Any]:
    return {
        "http_sd_configs": [{"url": url, "refresh_interval": "5s"}],
        "relabel_configs": [{"target_label": "cluster", "replacement": _CLUSTER}],
    }


def _introduce(url: str, cluster: "Described") -> None:
    typer.echo(
        f"Trilens runs at {url} with a simulated cluster of {cluster.gpus} GPUs on {cluster.nodes} nodes. "
        "Ctrl-C ends it.\n"
    )
    typer.echo("Try, in another terminal (the first samples come within seconds):\n")
    # As it was started, so that a line can be pasted where no `trilens` is on the path.
    command = "trilens" if shutil.which("trilens") else sys.argv[0]
    server = "" if url == "http://127.0.0.1:9333" else f" --server {url}"
    for meaning, arguments in TRY:
        typer.echo(f"  # {meaning}\n  {command} {arguments}{server}\n")
