"""The `trilens` command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from trilens import __version__
from trilens.cli import (
    agent,
    alerts,
    audit,
    backfill,
    backup,
    bundle,
    config,
    cost,
    demo,
    detect,
    doctor,
    events,
    experiments,
    findings,
    fix,
    flight,
    gpus,
    import_commands,
    incidents,
    kubernetes,
    ledger,
    lineage,
    login,
    logs,
    mcp,
    nccl,
    preflight,
    prices,
    promql,
    query,
    receivers,
    restore,
    rules,
    run,
    runs,
    show,
    silences,
    spool,
    token,
    trackers,
    up,
    why,
    workloads,
    xid,
)
from trilens.cli.failure import report
from trilens.cli.help_text import Commands
from trilens.cli.kubectl import program_name
from trilens.cli.top.command import top
from trilens.model.errors import TrilensError

app = typer.Typer(
    name="trilens",
    cls=Commands,
    help="Workload-aware observability for AI on GPUs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(up.up)
app.command()(demo.demo)
app.command()(agent.agent)
app.command(context_settings={"allow_interspersed_args": False})(run.run)
app.command()(top)
app.command()(workloads.workloads)
app.command()(show.show)
app.command()(lineage.lineage)
app.command()(gpus.gpus)
app.command()(events.events)
app.command()(findings.findings)
app.command()(incidents.incidents)
app.command()(alerts.alerts)
app.command()(why.why)
app.command()(bundle.bundle)
app.command()(logs.logs)
app.command()(nccl.nccl)
app.command()(flight.flight)
app.command()(xid.xid)
app.command()(experiments.experiments)
app.command()(trackers.trackers)
app.command()(prices.prices)
app.command()(doctor.doctor)
app.command()(login.login)
app.command()(login.logout)
app.command()(audit.audit)
app.command()(mcp.mcp)
app.command()(query.query)
app.command()(backfill.backfill)
app.command()(backup.backup)
app.command()(restore.restore)
app.add_typer(preflight.app, name="preflight", cls=Commands)
app.add_typer(promql.app, name="promql", cls=Commands)
app.add_typer(runs.app, name="runs", cls=Commands)
app.add_typer(cost.app, name="cost", cls=Commands)
app.add_typer(spool.app, name="spool", cls=Commands)
app.add_typer(ledger.app, name="ledger", cls=Commands)
app.add_typer(import_commands.app, name="import", cls=Commands)
app.add_typer(detect.app, name="detect", cls=Commands)
app.add_typer(fix.app, name="fix")  # with a class of its own
app.add_typer(rules.app, name="rules", cls=Commands)
app.add_typer(receivers.app, name="receivers", cls=Commands)
app.add_typer(silences.app, name="silences", cls=Commands)
app.add_typer(token.app, name="token", cls=Commands)
app.add_typer(config.app, name="config", cls=Commands)
app.add_typer(kubernetes.app, name="kubernetes", cls=Commands)

_debug = False


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback when something fails.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    global _debug
    _debug = debug


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    try:
        app(prog_name=program_name())
    except (TrilensError, ImportError) as error:
        if _debug:
            raise
        sys.exit(report(error))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
