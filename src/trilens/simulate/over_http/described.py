"""Where a simulated cluster answers: for people, and for a program that has started it."""

from __future__ import annotations

import json
from typing import NamedTuple


class Described(NamedTuple):
    url: str
    kubeconfig: str
    dcgm_targets: str  # for http_sd_configs
    program_targets: str  # for http_sd_configs
    agent_targets: str  # for http_sd_configs
    scenario: str
    gpus: int
    nodes: int
    born_ms: int  # when its life began
    began_ms: int  # when it began to answer

    def as_json(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def from_json(cls, line: str) -> Described:
        return cls(**json.loads(line))

    def as_text(self) -> str:
        return (
            f"A cluster of {self.gpus} GPUs on {self.nodes} nodes (scenario {self.scenario}) answers at "
            f"{self.url}. Ctrl-C ends it.\n\n"
            f"  the Kubernetes API: kubectl --kubeconfig {self.kubeconfig} get pods -A\n"
            f"  dcgm-exporter on each node, as http_sd_configs: {self.dcgm_targets}\n"
            f"  metrics of programs, as http_sd_configs: {self.program_targets}\n"
            f"  trilens agent on each node, as http_sd_configs: {self.agent_targets}"
        )
