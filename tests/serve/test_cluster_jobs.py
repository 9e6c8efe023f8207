"""Which jobs the settings of clusters make, and how they get on with those of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from trilens.cli.config_check import check_file
from trilens.collect.config import ScrapeConfig, load_scrape_configs
from trilens.collect.target import Target, build_target
from trilens.model.errors import ConfigError
from trilens.serve.scrape_jobs import ScrapeJobs, scrape_configs
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

EXPORTERS = ["dcgm-exporter", "node-exporter", "kube-state-metrics"]
ANNOTATED = ["kubernetes-pods", "kubernetes-services"]
OWN_JOB = {"scrape_configs": [{"job_name": "mine", "static_configs": [{"targets": ["a:1"]}]}]}


def jobs(folder: Path, clusters: dict[str, Any], scrape: Any = None, **more: Any) -> list[ScrapeConfig]:
    (folder / "k").write_text("")
    written = {name: {"kubeconfig": "k", **cluster} for name, cluster in clusters.items()}
    tree = {"kubernetes": {"clusters": written}, "scrape": scrape or {}, **more}
    file = folder / "trilens.yaml"
    file.write_text(yaml.safe_dump(tree))
    return scrape_configs(load_settings(file, environ={}))


@pytest.mark.parametrize(
    ("clusters", "scrape", "expected"),
    [
        ({"lab": {}}, {}, EXPORTERS),  # nothing else is scraped: two lines of settings show something
        ({"lab": {}}, OWN_JOB, ["mine"]),
        ({"lab": {"exporters": False}}, {}, []),
        ({"lab": {"exporters": True}}, OWN_JOB, ["mine", *EXPORTERS]),
        ({"lab": {"annotations": True}}, {}, ANNOTATED),
        ({"lab": {"monitors": "all"}}, {}, []),
        ({"lab": {"monitors": False}}, {}, EXPORTERS),  # `off`, as YAML reads it
        ({}, OWN_JOB, ["mine"]),
    ],
)
def test_which_jobs(tmp_path: Path, clusters: dict[str, Any], scrape: Any, expected: list[str]) -> None:
    assert [job.job_name for job in jobs(tmp_path, clusters, scrape)] == expected


def test_several_clusters_have_jobs_of_their_own_with_the_same_labels(tmp_path: Path) -> None:
    found = jobs(tmp_path, {"a": {"context": "x"}, "b": {"namespaces": ["gpu"]}})
    assert [job.job_name for job in found] == [f"{c}/{name}" for c in "ab" for name in EXPORTERS]
    section = found[0].kubernetes_sd_configs[0]
    assert (section.kubeconfig_file, section.kubeconfig_context) == (tmp_path / "k", "x")
    assert found[3].kubernetes_sd_configs[0].namespaces.names == ("gpu",)
    (target,) = targets(found[3], pod_meta(app="nvidia-dcgm-exporter"))
    assert (target["job"], target["cluster"]) == ("dcgm-exporter", "b")


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({"namespaces": ["ml"]}, ("ml",)),
        ({"namespaces": ["ml"], "exporter_namespaces": ["gpu-operator", "ml"]}, ("gpu-operator", "ml")),
        ({"exporter_namespaces": ["gpu-operator"]}, ("gpu-operator",)),
    ],
)
def test_exporters_may_be_where_no_workload_is_looked_at(
    tmp_path: Path, places: dict[str, Any], expected: tuple[str, ...]
) -> None:
    found = jobs(tmp_path, {"lab": {"exporters": True, "annotations": True, **places}})
    looked = {job.job_name: job.kubernetes_sd_configs[0].namespaces.names for job in found}
    assert looked == {
        **dict.fromkeys(EXPORTERS, expected),
        **dict.fromkeys(ANNOTATED, tuple(places.get("namespaces", ()))),
    }


def test_the_watch_is_the_same_for_all_exporters(tmp_path: Path) -> None:
    sections = {str(job.kubernetes_sd_configs) for job in jobs(tmp_path, {"lab": {}})}
    assert len(sections) == 1


@pytest.mark.parametrize("global_", [{}, {"scrape_interval": "5s"}])
def test_the_global_interval_counts_here_too(tmp_path: Path, global_: dict[str, str]) -> None:
    inline = jobs(tmp_path, {"lab": {}}, {"global": global_})
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({"global": global_}))
    from_file = jobs(tmp_path, {"lab": {"exporters": True}}, {"config_file": "prometheus.yml"})
    expected = 5 if global_ else 30
    assert {job.scrape_interval.seconds for job in (*inline, *from_file)} == {expected}


def test_agents_are_scraped_as_often_as_the_rest(tmp_path: Path) -> None:
    agents = {"scrape_config": {"static_configs": [{"targets": ["a:9334"]}]}}
    (job,) = jobs(tmp_path, {}, {"global": {"scrape_interval": "7s"}}, agents=agents)
    assert job.scrape_interval.total_seconds() == 7
    agents["scrape_config"]["scrape_interval"] = "3s"
    (job,) = jobs(tmp_path, {}, {"global": {"scrape_interval": "7s"}}, agents=agents)
    assert job.scrape_interval.total_seconds() == 3


def test_a_job_of_the_same_name_is_refused(tmp_path: Path) -> None:
    own = {"scrape_configs": [{"job_name": "kubernetes-pods"}]}
    with pytest.raises(ConfigError, match="there is a job 'kubernetes-pods'"):
        jobs(tmp_path, {"lab": {"annotations": True}}, own)


@pytest.mark.parametrize("asked", [{"exporters": True}, {"annotations": True}, {"monitors": "selected"}])
def test_nothing_is_scraped_where_another_server_is_asked(tmp_path: Path, asked: dict[str, Any]) -> None:
    source = {"source": {"url": "http://prometheus:9090"}}
    assert jobs(tmp_path, {"lab": {}}, **source) == []
    with pytest.raises(ConfigError, match="of the cluster 'lab' are to be scraped"):
        jobs(tmp_path, {"lab": asked}, **source)


META = "__meta_kubernetes_"


def pod_meta(**labels: str) -> dict[str, str]:
    return {
        "__address__": "10.0.0.1:9400",
        f"{META}namespace": "gpu-operator",
        f"{META}pod_name": "p",
        f"{META}pod_ip": "10.0.0.1",
        f"{META}pod_node_name": "n",
        f"{META}pod_phase": "Running",
        f"{META}pod_container_init": "false",
        f"{META}pod_container_port_name": "metrics",
        f"{META}pod_container_port_number": "9400",
        **{f"{META}pod_label_{name}": value for name, value in labels.items()},
    }


def targets(job: ScrapeConfig, *discovered: dict[str, str]) -> list[dict[str, str]]:
    built = [build_target(labels, job) for labels in discovered]
    return [{**dict(one.labels), "url": one.url} for one in built if isinstance(one, Target)]


def test_exporters_by_label_and_port(tmp_path: Path) -> None:
    dcgm, node, state = jobs(tmp_path, {"lab": {}})
    assert (dcgm.honor_labels, node.honor_labels, state.honor_labels) == (True, False, True)
    either = [pod_meta(app="nvidia-dcgm-exporter"), pod_meta(app_kubernetes_io_name="dcgm-exporter")]
    expected = {
        "cluster": "lab", "job": "dcgm-exporter", "node": "n", "instance": "10.0.0.1:9400",
        "url": "http://10.0.0.1:9400/metrics",
    }  # fmt: skip
    assert targets(dcgm, *either) == [expected, expected]
    port_name, number = f"{META}pod_container_port_name", f"{META}pod_container_port_number"
    others: list[dict[str, str]] = [
        {f"{META}pod_label_app": "dcgm-exporter-proxy"},
        {port_name: "https-metrics"},
        {port_name: "debug", number: "6060"},
        {f"{META}pod_phase": "Failed"},
        {f"{META}pod_container_init": "true"},
    ]
    assert targets(dcgm, *({**either[0], **other} for other in others)) == []
    assert len(targets(dcgm, {**either[0], port_name: ""})) == 1, "its usual number is enough"
    (found,) = targets(node, pod_meta(app="node-exporter"))
    assert (found["pod"], found["namespace"], found["node"]) == ("p", "gpu-operator", "n")
    port = {port_name: "http", number: "8080"}
    (found,) = targets(state, {**pod_meta(app_kubernetes_io_name="kube-state-metrics"), **port})
    assert found.keys() == {"cluster", "job", "instance", "url"}, "a Deployment is on no node"


def test_annotations_say_how_to_scrape(tmp_path: Path) -> None:
    pods, services = jobs(tmp_path, {"lab": {"annotations": True}})

    def asked(what: str, **annotations: str) -> dict[str, str]:
        prefix = f"{META}{what}_annotation_prometheus_io_"
        return {**pod_meta(), **{prefix + name: value for name, value in annotations.items()}}

    every = {"scrape": "true", "port": "81", "path": "/m", "scheme": "https", "param_x": "1"}
    (pod,) = targets(pods, asked("pod", **every))
    assert pod["url"] == "https://10.0.0.1:81/m?x=1"
    assert (pod["namespace"], pod["pod"], pod["node"]) == ("gpu-operator", "p", "n")
    assert [one["url"] for one in targets(pods, asked("pod", scrape="true"))] == [
        "http://10.0.0.1:9400/metrics"
    ]
    v6 = {**asked("pod", scrape="true", port="81"), f"{META}pod_ip": "fd00::1"}
    assert [one["url"] for one in targets(pods, v6)] == ["http://[fd00::1]:81/metrics"]
    assert targets(pods, asked("pod"), asked("pod", scrape="false")) == []
    for address, expected in (
        ("10.0.0.1:80", "10.0.0.1:81"),
        ("[fd00::1]:80", "[fd00::1]:81"),
        ("h", "h:81"),
    ):
        (service,) = targets(
            services,
            {**asked("service", **every), "__address__": address, f"{META}service_name": "web"},
        )
        assert (service["url"], service["service"]) == (f"https://{expected}/m?x=1", "web")


class Manager:
    """Takes jobs as a ScrapeManager does."""

    def __init__(self) -> None:
        self.jobs: list[str] = []
        self.stopped = False
        self.refuses = False

    def reload(self, configs: Iterable[ScrapeConfig]) -> None:
        assert not self.stopped
        if self.refuses:
            raise ConfigError("a certificate cannot be read")
        self.jobs = [f"{config.job_name}:{config.metrics_path}" for config in configs]

    def stop(self) -> None:
        self.stopped = True


def job(name: str, path: str) -> ScrapeConfig:
    document = {"job_name": name, "metrics_path": path}
    (config,) = load_scrape_configs({"scrape_configs": [document]}, base_dir=None)  # type: ignore[arg-type]
    return config


def test_jobs_of_the_configuration_and_of_clusters_stand_side_by_side() -> None:
    manager = Manager()
    all_jobs = ScrapeJobs(manager, [job("a", "/1")])  # type: ignore[arg-type]
    all_jobs.found("lab", [job("b", "/1"), job("a", "/found")])
    assert manager.jobs == ["a:/1", "b:/1"], "what is configured goes first"
    all_jobs.found("prod", [job("c", "/1")])
    all_jobs.configure([job("d", "/1")])
    assert manager.jobs == ["d:/1", "b:/1", "a:/found", "c:/1"]
    manager.refuses = True
    with pytest.raises(ConfigError):
        all_jobs.configure([])
    with pytest.raises(ConfigError):
        all_jobs.found("lab", [])
    manager.refuses = False
    all_jobs.found("prod", [])
    assert manager.jobs == ["d:/1", "b:/1", "a:/found"], "what was refused has changed nothing"
    all_jobs.stop()
    all_jobs.found("lab", [])


def test_a_check_of_the_settings_sees_these_jobs(tmp_path: Path) -> None:
    file = tmp_path / "trilens.yaml"
    file.write_text("kubernetes: {clusters: {prod: {in_cluster: true}}}")
    report = check_file(file)
    assert (report.ok, report.jobs) == (True, len(EXPORTERS))
    assert not any("has no targets" in warning for warning in report.warnings)
