"""A server beside a simulated cluster, both for as long as somebody looks."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trilens.settings.tree import Settings
    from trilens.simulate.over_http.described import Described
    from trilens.simulate.scenario import Scenario

_CLUSTER: Final = "demo"


class DemoServer(NamedTuple):
    """How it is run, as its options say."""

    listen: str
    interval: str
    alertmanagers: Sequence[str]
    log_level: str = "warning"

    def check(self) -> None:
        """Before anything starts. Raises ConfigError."""
        from trilens.cli.times import read_duration
        from trilens.settings.load import validate

        read_duration(self.interval, "--interval")
        validate(
            {"server": {"listen": self.listen}, **self._alerting()},
            origins={"server.listen": "--listen", "alerting.receivers": "--alertmanager"},
        )

    def run(
        self,
        simulated: Sequence[str],
        announce: Callable[[str, Described], None],
        past: Callable[[Described], Scenario | None] = lambda _: None,
        seed: int = 0,
    ) -> None:
        """Until it is interrupted. `simulated` are arguments of the simulator, `announce` is told where the
        server is once it answers, and of the scenario that `past` names its past is there."""
        import uvloop  # noqa: F401 - an install without the server is told here, before anything starts

        from trilens.settings.load import validate
        from trilens.simulate.over_http.process import SimulatorFailed, SimulatorProcess

        arguments = [*simulated, "--seed", str(seed)]
        with (
            TemporaryDirectory(prefix="trilens-demo-") as directory,
            SimulatorProcess(arguments) as simulator,
        ):
            from trilens.serve.run import run_server  # takes as long as the simulator takes to come up

            try:
                cluster = simulator.described()
            except SimulatorFailed as e:
                typer.echo(f"trilens: {e}", err=True)
                raise typer.Exit(1) from e

            def load() -> Settings:
                tree = self._settings(cluster, directory) | self._alerting()
                return validate(tree, origins={"server.listen": "--listen"})

            scenario = past(cluster)
            if scenario is not None:
                from trilens.serve.rehearsal.past import keep_past

                keep_past(scenario, seed, cluster.born_ms, cluster.began_ms, load().storage, _CLUSTER)

            def answers(url: str, _: Settings) -> None:
                simulator.send_records_to(url)
                announce(url, cluster)

            run_server(load, answers)

    def _settings(self, cluster: Described, directory: str) -> dict[str, Any]:
        jobs: list[dict[str, Any]] = [
            {"job_name": "dcgm", **_found(cluster.dcgm_targets)},
            {"job_name": "programs", **_found(cluster.program_targets)},
        ]
        if not self.listen.endswith(":0"):
            jobs.append({"job_name": "trilens", "static_configs": [{"targets": [self.listen]}]})
        return {
            "server": {"listen": self.listen, "log_level": self.log_level},
            "storage": {"data_dir": f"{directory}/data"},
            "kubernetes": {"clusters": {_CLUSTER: {"kubeconfig": cluster.kubeconfig}}},
            "agents": {"scrape_config": _found(cluster.agent_targets)},
            "scrape": {"global": {"scrape_interval": self.interval}, "scrape_configs": jobs},
        }

    def _alerting(self) -> dict[str, Any]:
        urls = list(self.alertmanagers)
        return {"alerting": {"receivers": {"alertmanager": {"alertmanager": {"urls": urls}}} if urls else {}}}


def _found(url: str) -> dict[str, Any]:
    return {
        "http_sd_configs": [{"url": url, "refresh_interval": "5s"}],
        "relabel_configs": [{"target_label": "cluster", "replacement": _CLUSTER}],
    }
