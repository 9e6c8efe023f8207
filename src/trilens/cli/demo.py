"""`trilens demo`: a server with a small fleet that does not exist."""

import shutil
import sys
from typing import Annotated

import typer

_TRY = (
    ("power of the whole fleet, in watts", "sum(DCGM_FI_DEV_POWER_USAGE)"),
    (
        "GPUs that look busy and do no work: a hung job",
        "DCGM_FI_DEV_POWER_USAGE < 200 and on (UUID) DCGM_FI_DEV_GPU_UTIL > 95",
    ),
    (
        "GPUs that are too hot to run at full speed",
        "DCGM_FI_DEV_SM_CLOCK < 1500 and DCGM_FI_DEV_GPU_TEMP > 80",
    ),
    (
        "power by pod, from the energy counters, in watts",
        'sum by (pod) (rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{pod!=""}[30s])) / 1000',
    ),
)


def demo(
    nodes: Annotated[int, typer.Option(metavar="N", min=1, max=200, help="Nodes of eight GPUs each.")] = 6,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:9333",
    interval: Annotated[str, typer.Option(metavar="DURATION", help="How often the fleet is scraped.")] = "5s",
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed makes the same fleet.")] = 0,
) -> None:
    """Run a server with a simulated GPU fleet.

    Its data lies in a temporary directory, and is gone when it ends.
    """
    from tempfile import TemporaryDirectory

    from trilens.cli.times import read_duration
    from trilens.serve.run import run_server
    from trilens.settings.load import validate
    from trilens.settings.tree import Settings
    from trilens.simulate.fleet import Fleet
    from trilens.simulate.targets import FleetTargets

    read_duration(interval, "--interval")
    fleet = Fleet(nodes, seed=seed)
    with TemporaryDirectory(prefix="trilens-demo-") as directory, FleetTargets(fleet) as targets:

        def load() -> Settings:
            jobs = [
                {"job_name": "dcgm", "static_configs": [{"targets": targets.addresses}]},
                *([] if listen.endswith(":0") else [_itself(listen)]),
            ]
            tree = {
                "server": {"listen": listen, "log_level": "warning"},
                "storage": {"data_dir": f"{directory}/data"},
                "scrape": {"global": {"scrape_interval": interval}, "scrape_configs": jobs},
            }
            return validate(tree, origins={"server.listen": "--listen"})

        run_server(load, announce=lambda url, _: _introduce(url, nodes))


def _itself(listen: str) -> dict[str, object]:
    return {"job_name": "trilens", "static_configs": [{"targets": [listen]}]}


def _introduce(url: str, nodes: int) -> None:
    typer.echo(f"Trilens runs at {url} with {nodes} simulated nodes ({nodes * 8} GPUs). Ctrl-C ends it.\n")
    typer.echo(
        "Try, in another terminal (the first samples come within seconds, rates after half a minute):\n"
    )
    # As it was started, so that a line can be pasted where no `trilens` is on the path.
    command = "trilens" if shutil.which("trilens") else sys.argv[0]
    for meaning, expression in _TRY:
        server = "" if url == "http://127.0.0.1:9333" else f" --server {url}"
        typer.echo(f"  # {meaning}\n  {command} query '{expression}'{server}\n")
