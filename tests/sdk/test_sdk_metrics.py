"""/metrics of a run: names, labels and text as Prometheus reads them."""

from __future__ import annotations

import os
import re
import socket
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from sdk_runs import begun
from trilens.collect.exposition import parse_samples
from trilens.sdk.exposition import MetricsPort
from trilens.sdk.guard import Guard
from trilens.sdk.identity import Identity
from trilens.sdk.metrics import Metrics
from trilens.sdk.options import Options
from trilens.sdk.own_metrics import OWN_METRICS
from trilens.sdk.process_facts import listens_beyond_this_machine, reachable
from trilens.sdk.recorder import Recorder
from trilens.sdk.training_metrics import KNOWN_VALUES, TRAINING_METRICS, TrainingMetrics
from trilens.simulate.training_text import training_text

if TYPE_CHECKING:
    from trilens.sdk.run import Run
    from trilens.sdk.step_note import StepNote


def note(
    n: int, *, start: int = 0, end: int = 1_000_000_000, tokens: int | None = None, **values: float
) -> StepNote:
    return (
        n,
        n,
        start,
        end,
        {"forward": 400_000_000},
        values,
        {"forward": 300_000},
        8,
        tokens,
        1,
        None,
        None,
    )


@pytest.fixture
def recorder() -> Recorder:
    recorder = Recorder("run", Identity(), Options(), Guard())
    recorder.metrics.set_common({"job_name": 'a "job"\\\n', "rank": "0"})
    return recorder


def shown(recorder: Recorder) -> dict[str, float]:
    """By name, with the last of its own labels where it has any."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(recorder.metrics.text()):
        for sample in family.samples:
            assert sample.labels["job_name"] == 'a "job"\\\n'
            own = [value for label, value in sample.labels.items() if label not in ("job_name", "rank")]
            found[" ".join([sample.name, *own])] = sample.value
    return found


def test_steps_become_the_metrics_people_know(recorder: Recorder) -> None:
    metrics = TrainingMetrics(recorder, 10)
    recorder.flops_per_token = 5e9
    recorder.peak_flops_per_second = 1e12
    metrics.add_steps([note(0, tokens=100, loss=3.0), note(1, tokens=100, loss=2.0, lr=1e-3)])
    recorder.last_step_ended_ns = 1
    assert {name: value for name, value in shown(recorder).items() if "timestamp" not in name} == {
        "training_step": 1,
        "training_steps_total": 2,
        "training_step_seconds_total": 2,
        "training_step_phase_seconds_total forward": 0.8,
        "training_step_device_phase_seconds_total forward": 0.6,
        "training_epoch": 1,
        "training_samples_total": 16,
        "training_samples_per_second": 8,
        "training_tokens_total": 200,
        "training_tokens_per_second": 100,
        "training_flops_per_second": 5e11,
        "training_mfu_ratio": 0.5,
        "training_loss": 2,
        "training_learning_rate": 1e-3,
        "training_progress_ratio": 0.2,
    }


def test_what_is_not_known_is_not_shown(recorder: Recorder) -> None:
    TrainingMetrics(recorder, None).add_steps([(0, 0, 0, 1, {}, {}, {}, None, None, None, None, None)])
    names = {name.split()[0] for name in shown(recorder)}
    assert names == {"training_step", "training_steps_total", "training_step_seconds_total"}


def test_speed_is_that_of_the_steps_that_said_how_much_they_had(recorder: Recorder) -> None:
    TrainingMetrics(recorder, None).add_steps([note(0, tokens=100), note(1, tokens=None)])
    assert shown(recorder)["training_tokens_per_second"] == 100


def test_values_are_shown_under_valid_names_that_are_nobody_elses(recorder: Recorder) -> None:
    metrics = TrainingMetrics(recorder, None)
    metrics.show_values(
        {"train/acc": 1.0, "train.acc": 2.0, "step": 3.0, "größe": 4.0, "9": 5.0, "nan": float("nan")}
    )
    metrics.show_values({"loss": 6.0, "duration_seconds": 7.0}, "training_validation_")
    found = shown(recorder)
    assert found.pop("training_nan") != found.get("training_nan")
    assert found == {
        "training_train_acc": 1.0,
        "training_logged_step": 3.0,
        "training_gr__e": 4.0,
        "training_9": 5.0,
        "training_validation_loss": 6.0,
        "training_logged_validation_duration_seconds": 7.0,
    }
    assert recorder.guard.counts() == {"metric": 1}  # train.acc is train/acc there


def test_series_are_bounded(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.sdk.metrics.MOST_SERIES", 2)
    for i in range(5):
        recorder.gauge("x", "X.", i, {"i": str(i)})
    recorder.gauge("x", "X.", 9, {"i": "0"})
    assert shown(recorder) == {"x 0": 9, "x 1": 1}
    assert recorder.guard.counts() == {"metric": 3}


def test_the_simulator_speaks_of_the_same_metrics() -> None:
    text = training_text.__code__.co_consts
    simulated = {one for one in text if isinstance(one, str) and one.startswith("training_")}
    known = {*TRAINING_METRICS, "training_loss", "training_gradient_norm", "training_validation_loss"}
    assert simulated
    assert simulated <= known


def scrape(run: Run, path: str = "/metrics", method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"http://{run.metrics_address}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_scrape_is_read_by_prometheus_and_by_trilens(tmp_path: Path) -> None:
    with begun(tmp_path, "e", name="job", total_steps=3) as (run, _):
        for _ in range(2):
            with run.step(samples=1), run.phase("forward"):
                run.log(loss=float("nan"), up=float("inf"))
        run.log(loss="text")
        assert run._parts is not None
        run._parts.background._turn()
        _, text = scrape(run)
        ours, _ = parse_samples(text.encode(), openmetrics=False)
        assert 'training_steps_total{job_name="job",rank="0"} 1\n' in text
        theirs = list(text_string_to_metric_families(text))
        assert sum(len(family.samples) for family in theirs) == len(ours)
        assert {"trilens_sdk_info", "trilens_sdk_lost"} <= {family.name for family in theirs}
        assert scrape(run, "/nothing")[0] == 404
        assert scrape(run, "/metrics?x=1", "POST")[0] == 405
        assert scrape(run, "/", "HEAD") == (200, "")


def test_a_scraper_that_says_nothing_or_too_much_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.sdk.exposition._CLIENT_S", 0.05)
    with begun(tmp_path) as (run, _):
        assert run.metrics_address is not None
        host, port = run.metrics_address.rsplit(":", 1)
        address = (host, int(port))
        with socket.create_connection(address), socket.create_connection(address) as loud:
            loud.sendall(b"GET /" + b"x" * 20_000)
            with socket.create_connection(address) as slow:
                stop = threading.Event()

                def drip() -> None:
                    with suppress(OSError):  # until it is closed on us
                        while not stop.wait(0.01):
                            slow.sendall(b"x")

                dripping = threading.Thread(target=drip)
                dripping.start()
                try:
                    assert scrape(run)[0] == 200
                finally:
                    stop.set()
                    dripping.join()
        assert run.recorder.guard.counts() == {}


def test_no_port_at_all_costs_the_metrics_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no sockets here")

    monkeypatch.setattr(socket, "socket", refused)
    guard = Guard()
    port = MetricsPort(str, "127.0.0.1", 0, guard)
    port.close()
    assert port.address is None
    assert guard.counts() == {"metrics port": 1}


@pytest.mark.parametrize(
    ("environment", "is_open"),
    [
        ({}, False),
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1", "POD_IP": "10.1.2.3"}, True),
        ({"SLURM_JOB_ID": "7"}, True),
        ({"RANK": "1", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "node-0"}, True),
        ({"RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8", "MASTER_ADDR": "node-0"}, False),
    ],
    ids=["alone", "kubernetes", "slurm", "several nodes", "one node"],
)
def test_whoever_is_elsewhere_reaches_a_run_that_is_on_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], is_open: bool
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with begun(tmp_path) as (run, _):
        assert run.metrics_address is not None
        host, _, port = run.metrics_address.rpartition(":")
        # An address of this machine that is not the one which is listened on by programs alone.
        with socket.socket() as client:
            assert (client.connect_ex(("127.0.0.2", int(port))) == 0) is is_open
        assert (host == "127.0.0.1") is not is_open
        assert host == environment.get("POD_IP", host)


def test_every_interface_is_listened_on_where_the_scraper_is_elsewhere() -> None:
    assert not listens_beyond_this_machine(Identity())
    assert not listens_beyond_this_machine(Identity(world_size=2, local_world_size=2))
    assert listens_beyond_this_machine(Identity(pod="p"))
    assert listens_beyond_this_machine(Identity(launcher="slurm"))
    assert listens_beyond_this_machine(Identity(world_size=4, local_world_size=2))
    port = MetricsPort(str, "", 0, Guard())
    try:
        assert port.address is not None
        number = port.address.rsplit(":", 1)[1]
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/metrics", timeout=10) as answer:
            assert answer.status == 200
        assert reachable(port.address, Identity(pod="p"), "10.1.2.3") == f"10.1.2.3:{number}"
        assert reachable(port.address, Identity(pod="p"), "fd00::1") == f"[fd00::1]:{number}"
        assert reachable("127.0.0.1:1", Identity(), None) == "127.0.0.1:1"
    finally:
        port.close()


def test_a_program_with_prometheus_client_shows_them_there_and_a_child_does_not_double(
    tmp_path: Path,
) -> None:
    registry = CollectorRegistry()
    with begun(tmp_path, "e", metrics=False) as (run, _):
        run.export_to(registry)
        run.recorder.count("things_total", "Things.", 3, {"kind": "a"})
        run.recorder.count("things_total", "Things.", 4)
        before = generate_latest(registry).decode()
        assert 'things_total{job_name="e",kind="a",rank="0"} 3.0' in before
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, generate_latest(registry) or b"nothing")
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 100_000) == b"nothing"
        os.close(read)
        os.close(write)
    assert generate_latest(registry) == b""


def test_metrics_may_be_read_while_they_are_written() -> None:
    metrics = Metrics(Guard())
    metrics.before_scrape(lambda: metrics.gauge("late", "Late.", 1))
    metrics.before_scrape(lambda: 1 / 0)
    assert "late 1\n" in metrics.text()


def test_every_metric_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "sdk.md").read_text(encoding="utf-8")
    names = {*TRAINING_METRICS, *OWN_METRICS, *(name for name, _ in KNOWN_VALUES.values())}
    assert sorted(name for name in names if not re.search(rf"`{name}[`{{]", text)) == []
    assert sorted(name for name in KNOWN_VALUES if f"`{name}`" not in text) == []
