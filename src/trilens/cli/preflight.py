"""`trilens preflight`: the machines of a job, before the job."""

import json
import subprocess
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trilens.cli.options import AsCsv, AsList, Server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trilens.sdk.distributed.preflight.report import Report


app = typer.Typer(invoke_without_command=True)


@app.callback()
def preflight(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print an object with everything found.")] = False,
    limit: Annotated[
        float, typer.Option("--time", min=5, max=3600, metavar="SECONDS", help="At most so long to measure.")
    ] = 60.0,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare with what these machines did in earlier preflights.")
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Ranks to start on this machine [default: one for each GPU, or 2]."
        ),
    ] = None,
    send: Annotated[
        bool, typer.Option("--send/--no-send", help="Send the result to the server, as a run of its own.")
    ] = True,
    server: Server = None,
) -> None:
    """Check the machines of a distributed job, and measure how fast they reach each other.

    Alone it starts ranks on this machine. On several, start it as the job itself, with the same launcher:
    torchrun --nnodes 2 --nproc-per-node 8 ... -m trilens preflight, or srun trilens preflight.

    The exit code is 1 if a check did not hold.
    """
    if context.invoked_subcommand is not None:
        return
    from trilens.sdk.distributed.preflight.rank import go_through, is_rank
    from trilens.sdk.guard import Guard
    from trilens.sdk.identity import identify
    from trilens.sdk.options import read_options

    options = read_options(Guard(), server=server)
    identity = identify(options.environ)
    if not is_rank(identity, options.environ):
        raise typer.Exit(_start_ranks(processes, options.environ))
    folder = options.spool_dir.parent / "preflight"
    report = go_through(identity, options.environ, limit_s=limit, compare=compare, folder=folder)
    if report is None:
        return
    if send:
        _send(report, server)
    if as_json:
        typer.echo(json.dumps(report.as_json()))
    else:
        _show(report, folder)
    raise typer.Exit(0 if report.holds else 1)


@app.command()
def history(
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this node.")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The newest so many preflights.")] = 20,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List what a server keeps of earlier preflights, node by node, the newest first."""
    from urllib.parse import quote

    from trilens.cli.client import Client
    from trilens.cli.listing import is_printed
    from trilens.cli.plain_table import print_table
    from trilens.cli.times import show_moment

    with Client(server) as client:
        kept = client.get("/api/runs", {"experiment": "preflight", "limit": str(limit)})["data"]["runs"]
        notes = [
            {"t_ms": note["t_ms"], "run": one["run"], "text": note["text"], **note["data"]}
            for one in kept
            for note in client.get(f"/api/runs/{quote(one['run'])}")["data"]["notes"]
            if note["kind"] == "preflight" and node in (None, note["data"].get("node"))
        ]
    if is_printed(notes, as_json=as_json, as_csv=as_csv):
        return
    if not notes:
        typer.echo("no preflights", err=True)
    else:
        print_table(
            ["time", "node", "compute", "best link", "found"],
            [
                [
                    show_moment(one["t_ms"] // 1000),
                    one["node"],
                    _compute(one["flops_per_s"]),
                    _reach(one["link_bytes_per_s"]),
                    _verdict(one["findings"]),
                ]
                for one in notes
            ],
            folds=("found",),
        )


def _start_ranks(processes: int | None, environ: "Mapping[str, str]") -> int:
    """The first rank says how it went; when another fails, it waits in vain."""
    import socket
    import sys
    from importlib.util import find_spec

    from trilens.model.errors import PreflightError

    if find_spec("torch") is None:
        raise PreflightError("a preflight needs PyTorch", hint="install torch, as your job has it")
    if processes is None:
        import torch

        processes = torch.cuda.device_count() or 2
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    world = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(processes)}
    command = [sys.executable, "-m", "trilens", *sys.argv[1:]]
    ranks = [
        subprocess.Popen(command, env={**environ, **world, "RANK": str(rank), "LOCAL_RANK": str(rank)})  # noqa: S603
        for rank in range(processes)
    ]
    try:
        return _first_rank(ranks)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def _first_rank(ranks: "list[subprocess.Popen[bytes]]") -> int:
    while True:
        try:
            return ranks[0].wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            if failed := [rank.returncode for rank in ranks[1:] if rank.poll()]:
                return failed[0]


def _send(report: "Report", server: str | None) -> None:
    """A run of its own, so that it is kept, found and compared like any other."""
    import uuid

    import trilens

    run = trilens.init(
        "preflight",
        run_id=f"preflight-{uuid.uuid4().hex[:16]}",  # not that of the job whose launcher started it
        tags={"device": report.device, "backend": report.backend},
        server=server,
        metrics=False,
        stall_after=0,
    )
    told = report.as_json()
    for node in told["nodes"]:
        mine = [one for one in told["findings"] if node["node"] in one["nodes"]]
        run.recorder.note("preflight", f"{node['node']}: {_verdict(mine)}", data={**node, "findings": mine})
    run.recorder.artifact("preflight", "preflight.json", _fitting(told))
    run.finish()


def _fitting(told: dict[str, Any]) -> bytes:
    """As much of it as an artifact holds: of a thousand ranks, what each found and each link does not fit."""
    from trilens.sdk.recorder import MAX_ARTIFACT_BYTES

    for left_out in ("links", "results", "nodes"):
        content = json.dumps(told).encode()
        if len(content) <= MAX_ARTIFACT_BYTES:
            break
        told = {**told, left_out: None}
    return content


def _verdict(findings: list[dict[str, Any]]) -> str:
    return "; ".join(one["text"] for one in findings) or "nothing found"


def _show(report: "Report", folder: "Path") -> None:
    from trilens.cli.folding import ranges
    from trilens.cli.plain_table import print_table

    ranks = "1 rank" if report.world_size == 1 else f"{report.world_size} ranks"
    typer.echo(f"{ranks}, {report.backend} on {report.device}")
    if report.all_reduce:
        typer.echo("\nall-reduce")
        print_table(
            ["size", "time", "bus bandwidth"],
            [
                [_bytes(one.size_bytes), f"{one.seconds * 1e3:.3f} ms", _speed(one.bus_bytes_per_s)]
                for one in report.all_reduce
            ],
        )
    typer.echo("\nnodes")
    print_table(
        ["node", "ranks", "compute", "best link"],
        [
            [
                node.node,
                ranges(node.ranks),
                _compute(node.flops_per_s),
                _reach(node.link_bytes_per_s),
            ]
            for node in report.nodes
        ],
    )
    if report.links_left_out:
        typer.echo(f"{report.links_left_out} links were not measured, for want of time (--time)")
    if report.findings:
        typer.echo("\nfound")
        print_table(
            ["", "check", "what", "nodes", "ranks"],
            [
                [one.level, one.check, one.text, " ".join(one.nodes), ranges(one.ranks) if one.ranks else ""]
                for one in report.findings
            ],
            folds=("what",),
        )
    else:
        typer.echo("\nnothing found")
    typer.echo(f"remembered in {folder}")


def _bytes(size: int) -> str:
    for unit, step in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << step:
            return f"{size >> step} {unit}"
    return f"{size} B"


def _compute(flops_per_s: float | None) -> str:
    return "-" if flops_per_s is None else f"{flops_per_s / 1e12:.3g} TFLOP/s"


def _reach(bytes_per_s: float | None) -> str:
    return "-" if bytes_per_s is None else _speed(bytes_per_s)


def _speed(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.3g} GB/s"
