"""`trilens agent`: read one node's GPUs, processes and kernel log, and serve what they tell."""

from pathlib import Path
from typing import Annotated

import typer


def agent(
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Settings file [default: trilens.yaml here, if there is one]."),
    ] = None,
    listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where to listen [default: 127.0.0.1:9334].")
    ] = None,
) -> None:
    """Run the agent of one node until it is interrupted."""
    import platform
    import signal
    import threading

    from trilens import __version__
    from trilens.collect.node.agent import NodeAgent
    from trilens.collect.node.endpoint import Endpoint
    from trilens.collect.node.fault_watch import open_kernel_log
    from trilens.collect.node.nvml import Driver
    from trilens.serve.logs import configure_logs
    from trilens.settings.load import load_settings

    settings = load_settings(config, {"agent.listen": listen}).agent
    configure_logs(settings)
    choice = settings.kernel_log
    node = NodeAgent(
        settings,
        settings.node_name or platform.node(),
        Driver,
        None if choice == "off" else lambda: open_kernel_log(choice),
    )
    endpoint = Endpoint(node, settings)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stopping.set())
    node.start()
    endpoint.start()
    if settings.log_format == "text":
        typer.echo(f"Trilens agent {__version__} serves {endpoint.url}/metrics - Ctrl-C ends it")
    stopping.wait()
    endpoint.stop()
    node.stop()
