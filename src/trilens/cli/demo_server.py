"""A server beside a simulated cluster, both for as long as somebody looks."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.cli.demo_kept import KeptNight
    from trilens.serve.rehearsal.laid_night import Laying
    from trilens.settings.tree import Settings
    from trilens.simulate.over_http.described import Described
    from trilens.simulate.over_http.process import SimulatorProcess
    from trilens.simulate.scenario import Scenario
    from trilens.store.store import Store

_DATA: Final = "data"
_CLUSTER: Final = "demo"
_FIRST_PAGE_S: Final = 2.0  # for what it asks, before the rest of the night takes a processor


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

                keep_past(scenario, seed, cluster.born_ms, cluster.began_ms, load().storage, _CLUSTER)
            run_server(load, _answering(simulator, cluster, announce))

    def run_night(self, kept: KeptNight, seed: int, announce: Callable[[str, Described], None]) -> None:
        """Until it is interrupted: twelve hours that are kept end now, and the cluster goes on from there."""
        import uvloop  # noqa: F401 - as above

        from trilens.serve.lean import keep_pandas_out
        from trilens.serve.rehearsal.laid_night import Laying, lay
        from trilens.serve.rehearsal.night_cluster import arguments_after, promised
        from trilens.simulate.over_http.process import SimulatorProcess

        keep_pandas_out()
        laying = Laying(kept.folder, kept.night, time.time_ns() // 1000)
        with (
            TemporaryDirectory(prefix="trilens-demo-") as directory,
            SimulatorProcess(arguments_after(laying, seed)) as simulator,
            ThreadPoolExecutor(1, "lay-night") as beside,
        ):
            laid = beside.submit(lay, laying, Path(directory) / _DATA)
            from trilens.serve.run import run_server  # takes as long as that

            cluster = _described(simulator)
            laid.result()
            run_server(
                self._loading(cluster, directory, promised()),
                _answering(simulator, cluster, announce),
                lambda store: _lay_rest(laying, store),
            )

    def _loading(
        self, cluster: Described, directory: str, more: Mapping[str, Any] | None = None
    ) -> Callable[[], Settings]:
        from trilens.settings.load import validate

        def load() -> Settings:
            tree = self._settings(cluster, directory) | self._alerting() | dict(more or {})
            return validate(tree, origins={"server.listen": "--listen"})

        return load

    def _settings(self, cluster: Described, directory: str) -> dict[str, Any]:
        jobs = [
            {"job_name": "dcgm", **_found(cluster.dcgm_targets)},
            {"job_name": "programs", **_found(cluster.program_targets)},
        ]
        return {
            "server": {"listen": self.listen, "log_level": self.log_level},
            "storage": {"data_dir": f"{directory}/{_DATA}"},
            "kubernetes": {"clusters": {_CLUSTER: {"kubeconfig": cluster.kubeconfig}}},
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


def _lay_rest(laying: Laying, store: Store) -> None:
    from trilens.cli.demo_kept import say_if_old
    from trilens.serve.rehearsal.laid_night import lay_rest

    time.sleep(_FIRST_PAGE_S)
    lay_rest(laying, store)
    say_if_old(laying.night)


def _found(url: str) -> dict[str, Any]:
    return {
        "http_sd_configs": [{"url": url, "refresh_interval": "5s"}],
        "relabel_configs": [{"target_label": "cluster", "replacement": _CLUSTER}],
    }
