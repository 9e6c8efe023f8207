"""The agent inside the server: a single workstation needs no second process.

It is the agent that runs on other machines, on a port of loopback with a token that nobody else has, so its
readings come in the same way as theirs.
"""

from __future__ import annotations

import logging
import platform
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilens.collect.config import load_scrape_config
from trilens.collect.node.asking import Asker, Overdue
from trilens.model.errors import ConfigError, NodeError
from trilens.settings.yaml_file import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.collect.config import ScrapeConfig
    from trilens.collect.node.nvml import Nvml
    from trilens.settings.tree import Settings

log = logging.getLogger(__name__)

_JOB: Final = "trilens-agent/this-machine"  # of a pool of its own, for it has a token of its own
_SIGNS_OF_A_DRIVER: Final = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
_ANSWER_S: Final = 10.0  # loading a driver takes seconds; a broken one would hang the start
_MISSING: Final = "pip install 'trilens[agent]' brings what is missing"


class ThisMachine:
    """Made, then `start`, then `stop`; making it opens its port."""

    def __init__(self, settings: Settings, open_nvml: Callable[[], Nvml]) -> None:
        try:
            from trilens.collect.node.agent import NodeAgent
            from trilens.collect.node.endpoint import Endpoint
            from trilens.collect.node.fault_watch import open_kernel_log
        except ImportError as e:
            raise ConfigError(f"this machine cannot be read: {e}", hint=_MISSING) from e
        self._token = secrets.token_urlsafe(32)
        own: dict[str, object] = {"listen": "127.0.0.1:0", "token": self._token, "token_file": None}
        own |= {"tls_cert_file": None, "tls_key_file": None}
        agent = settings.agent
        if "state_file" not in agent.model_fields_set:
            own["state_file"] = settings.storage.data_dir / "agent-state.json"
        agent = type(agent).model_validate({**agent.model_dump(), **own})
        choice = agent.kernel_log
        self._node = NodeAgent(
            agent,
            agent.node_name or platform.node(),
            open_nvml,
            None if choice == "off" else lambda: open_kernel_log(choice),
        )
        self._endpoint = Endpoint(self._node, agent)
        self._interval = settings.agents.interval

    def start(self) -> None:
        self._node.start()
        self._endpoint.start()

    def stop(self) -> None:
        self._endpoint.stop()
        self._node.stop()

    def scrape_config(self) -> ScrapeConfig:
        section = {
            "static_configs": [{"targets": [self._endpoint.url.removeprefix("http://")]}],
            "authorization": {"credentials": self._token},
            "scrape_interval": self._interval,
            "relabel_configs": [
                {"target_label": "job", "replacement": "trilens-agent"},
                # The port is another one at every start: as a label it would begin all series anew.
                {"target_label": "instance", "replacement": platform.node()},
            ],
        }
        return load_scrape_config(section, Path(), Place(None), _JOB)


def this_machine(settings: Settings) -> ThisMachine | None:
    """None where it is not to be read, or has no GPUs."""
    choice = settings.agents.this_machine
    named = settings.kubernetes.clusters or settings.agents.scrape_config
    if choice == "off" or (choice == "auto" and named):
        return None
    from trilens.collect.node.nvml import Driver

    if choice == "auto" and not _has_gpus(Driver):
        log.info("no GPU is found on this machine, so it is not read")
        return None
    return ThisMachine(settings, Driver)


def _has_gpus(open_nvml: Callable[[], Nvml]) -> bool:
    if not any(sign.exists() for sign in _SIGNS_OF_A_DRIVER):
        return False
    try:
        return bool(Asker("trilens-gpu-search").ask(lambda: open_nvml().gpus(), _ANSWER_S))
    except Overdue:
        log.warning("the NVIDIA driver of this machine does not answer; it is read as soon as it does")
        return True
    except ImportError as e:
        log.warning(
            "this machine has an NVIDIA driver, but cannot be read", extra={"error": f"{e}: {_MISSING}"}
        )
    except NodeError as e:
        log.info("the NVIDIA driver does not answer, so this machine is not read", extra={"error": str(e)})
    return False
