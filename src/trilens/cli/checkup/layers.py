"""The checks of this machine, and those that a server's API answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.cli.checkup import machine
from trilens.cli.checkup.machine import Machine
from trilens.serve.checkup import layers
from trilens.serve.checkup.evidence import Evidence
from trilens.serve.checkup.finding import Layer

if TYPE_CHECKING:
    from trilens.cli.client import Client
    from trilens.serve.checkup.finding import Examined

THIS_MACHINE: Final = Layer(
    "this machine",
    machine.machine_sees,
    (
        machine.driver,
        machine.management_library,
        machine.kernel_log,
        machine.agent_here,
        machine.torch,
        machine.clock,
        machine.disk,
        machine.spool,
    ),
)


def examine_machine(here: Machine | None = None) -> Examined:
    return layers.examined(THIS_MACHINE, here or Machine())


def examine_server(client: Client) -> list[Examined]:
    """ServerError where it does not answer at all."""
    return layers.examine_server(Evidence(client))
