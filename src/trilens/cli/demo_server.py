"""A server beside a simulated cluster, both for as long as somebody looks."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from trilens.cli.demo_kept import CLUSTER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.cli.demo_kept import KeptNight
    from trilens.settings.tree import Settings
    from trilens.simulate.over_http.described import Described
    from trilens.simulate.over_http.process import SimulatorProcess
    from trilens.simulate.scenario import Scenario

_DATA: Final = "data"
# What teams may spend in a month: one of them spends it in a night.
_BUDGETS: Final = {
    "budgets": {
        "limits": [
            {"team": team, "amount": amount, "currency": "USD"}
            for team, amount in (("foundation", 9_000), ("vision", 60_000), ("search", 40_000))
        ]
    }
}


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

        from trilens.simulate.over_http.process import SimulatorProcess

        arguments = [*simulated, "--seed", str(seed)]
        with (
            TemporaryDirectory(prefix="trilens-demo-") as directory,
            SimulatorProcess(arguments) as simulator,
        ):
            from trilens.serve.run import run_server  # takes as long as the simulator takes to come up

            cluster = _described(simulator)
            load = self._loading(cluster, directory)
            scenario = past(cluster)
            if scenario is not None:
                from trilens.serve.rehearsal.past import keep_past

                keep_past(scenario, seed, cluster.born_ms, cluster.began_ms, load().storage, CLUSTER)
            run_server(load, _answering(simulator, cluster, announce))

    def run_night(self, kept: KeptNight, seed: int, announce: Callable[[str, Described], None]) -> None:
        """Until it is interrupted: twelve hours that are kept end now, and the cluster goes on from there."""
        import uvloop  # noqa: F401 - as above

        from trilens.serve.rehearsal.bad_night import arguments_after
        from trilens.simulate.over_http.process import SimulatorProcess

        folder, night = kept
        now_us = time.time_ns() // 1000
        with (
            TemporaryDirectory(prefix="trilens-demo-") as directory,
            SimulatorProcess(arguments_after(folder, seed, now_us // 1000)) as simulator,
        ):
            from trilens.serve.rehearsal.kept_night import lay
            from trilens.serve.run import run_server

            lay(folder, night, Path(directory) / _DATA, now_us // 1000, now_us)
            cluster = _described(simulator)
            run_server(self._loading(cluster, directory, _BUDGETS), _answering(simulator, cluster, announce))

    def _loading(
        self, cluster: Described, directory: str, more: Mapping[str, Any] | None = None
    ) -> Callable[[], Settings]:
        from trilens.settings.load import validate

        def load() -> Settings:
            tree = self._settings(cluster, directory) | self._alerting() | dict(more or {})
            return validate(tree, origins={"server.listen": "--listen"})

        return load

    def _settings(self, cluster: Described, directory: str) -> dict[str, Any]:
        jobs: list[dict[str, Any]] = [
            {"job_name": "dcgm", **_found(cluster.dcgm_targets)},
            {"job_name": "programs", **_found(cluster.program_targets)},
        ]
        if not self.listen.endswith(":0"):
            jobs.append({"job_name": "trilens", "static_configs": [{"targets": [self.listen]}]})
        return {
            "server": {"listen": self.listen, "log_level": self.log_level},
            "storage": {"data_dir": f"{directory}/{_DATA}"},
            "kubernetes": {"clusters": {CLUSTER: {"kubeconfig": cluster.kubeconfig}}},
            "agents": {"scrape_config": _found(cluster.agent_targets)},
            "scrape": {"global": {"scrape_interval": self.interval}, "scrape_configs": jobs},
        }

    def _alerting(self) -> dict[str, Any]:
        urls = list(self.alertmanagers)
        return {"alerting": {"receivers": {"alertmanager": {"alertmanager": {"urls": urls}}} if urls else {}}}


def _described(simulator: SimulatorProcess) -> Described:
    from trilens.simulate.over_http.process import SimulatorFailed

    try:
        return simulator.described()
    except SimulatorFailed as e:
        typer.echo(f"trilens: {e}", err=True)
        raise typer.Exit(1) from e


def _answering(
    simulator: SimulatorProcess, cluster: Described, announce: Callable[[str, Described], None]
) -> Callable[[str, Settings], None]:
    def answers(url: str, _: Settings) -> None:
        simulator.send_records_to(url)
        announce(url, cluster)

    return answers


def _found(url: str) -> dict[str, Any]:
    return {
        "http_sd_configs": [{"url": url, "refresh_interval": "5s"}],
        "relabel_configs": [{"target_label": "cluster", "replacement": CLUSTER}],
    }
