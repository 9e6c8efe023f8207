"""ServiceMonitors and PodMonitors become the jobs that the Prometheus operator makes of them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from kube_objects import to_object
from servers import require_server
from trilens.collect.cluster_scope import ClusterScope
from trilens.collect.config import load_scrape_configs
from trilens.collect.known_jobs import annotation_jobs, exporter_jobs
from trilens.collect.monitors.choice import has_labels, is_selected
from trilens.collect.monitors.job import jobs_of
from trilens.collect.monitors.selector import LabelSelector
from trilens.collect.target import Target, build_target
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.collect.monitors.keys import Holder
    from trilens.model.kubernetes import KubeObject

SCOPE = ClusterScope("lab", {"kubeconfig_file": "/k"})
SECRETS = {("api", "user"): "u", ("api", "pass"): "p", ("api", "token"): "t0k3n"}


class Known:
    """Keys of the namespace `serve` that were read; of the Secret `hidden` nothing may be."""

    def text(self, holder: Holder, key: str) -> str:
        assert holder.namespace == "serve"
        if holder.name == "hidden":
            raise ConfigError(f"{holder} may not be read")
        return SECRETS.get((holder.name, key), f"{holder.kind}:{holder.name}:{key}")


def monitor(kind: str, spec: dict[str, Any], **metadata: Any) -> KubeObject:
    named = {"name": "web", "namespace": "serve", "uid": "1", **metadata}
    return to_object(
        {"apiVersion": "monitoring.coreos.com/v1", "kind": kind, "metadata": named, "spec": spec}, "lab"
    )


def job_of(kind: str, endpoint: dict[str, Any], scope: ClusterScope = SCOPE, **spec: Any) -> dict[str, Any]:
    endpoints = "endpoints" if kind == "ServiceMonitor" else "podMetricsEndpoints"
    (job,) = jobs_of(monitor(kind, {endpoints: [endpoint], **spec}), scope, Known())
    return job


TARGET = [
    "__meta_kubernetes_endpointslice_address_target_kind",
    "__meta_kubernetes_endpointslice_address_target_name",
]


def test_a_service_monitor_is_relabelled_as_the_operator_does() -> None:
    job = job_of(
        "ServiceMonitor",
        {
            "port": "http",
            "relabelings": [{"sourceLabels": ["pod"], "targetLabel": "who", "action": "Replace"}],
        },
        selector={
            "matchLabels": {"b": "2", "app.kubernetes.io/name": "vllm"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "tier", "operator": "NotIn", "values": ["c"]},
                {"key": "x/y", "operator": "Exists"},
                {"key": "z", "operator": "DoesNotExist"},
            ],
        },
        targetLabels=["team-name"],
        podTargetLabels=["version"],
        jobLabel="app",
    )
    service = "__meta_kubernetes_service_"
    assert job["relabel_configs"] == [
        {"source_labels": ["job"], "target_label": "__tmp_prometheus_job_name"},
        {"target_label": "cluster", "replacement": "lab"},
        {
            "action": "keep",
            "source_labels": [
                f"{service}label_app_kubernetes_io_name",
                f"{service}labelpresent_app_kubernetes_io_name",
            ],
            "regex": "(vllm);true",
        },
        {
            "action": "keep",
            "source_labels": [f"{service}label_b", f"{service}labelpresent_b"],
            "regex": "(2);true",
        },
        {
            "action": "keep",
            "source_labels": [f"{service}label_tier", f"{service}labelpresent_tier"],
            "regex": "(a|b);true",
        },
        {
            "action": "drop",
            "source_labels": [f"{service}label_tier", f"{service}labelpresent_tier"],
            "regex": "(c);true",
        },
        {"action": "keep", "source_labels": [f"{service}labelpresent_x_y"], "regex": "true"},
        {"action": "drop", "source_labels": [f"{service}labelpresent_z"], "regex": "true"},
        {"action": "keep", "source_labels": ["__meta_kubernetes_endpointslice_port_name"], "regex": "http"},
        {
            "source_labels": TARGET,
            "separator": ";",
            "regex": "Node;(.*)",
            "replacement": "${1}",
            "target_label": "node",
        },
        {
            "source_labels": TARGET,
            "separator": ";",
            "regex": "Pod;(.*)",
            "replacement": "${1}",
            "target_label": "pod",
        },
        {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        {"source_labels": [f"{service}name"], "target_label": "service"},
        {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
        {"source_labels": ["__meta_kubernetes_pod_container_name"], "target_label": "container"},
        {"action": "drop", "source_labels": ["__meta_kubernetes_pod_phase"], "regex": "(Failed|Succeeded)"},
        {
            "source_labels": [f"{service}label_team_name"],
            "target_label": "team_name",
            "regex": "(.+)",
            "replacement": "${1}",
        },
        {
            "source_labels": ["__meta_kubernetes_pod_label_version"],
            "target_label": "version",
            "regex": "(.+)",
            "replacement": "${1}",
        },
        {"source_labels": [f"{service}name"], "target_label": "job", "replacement": "${1}"},
        {
            "source_labels": [f"{service}label_app"],
            "target_label": "job",
            "regex": "(.+)",
            "replacement": "${1}",
        },
        {"target_label": "endpoint", "replacement": "http"},
        {"source_labels": ["pod"], "target_label": "who", "action": "Replace"},
    ]
    assert job["job_name"] == "serviceMonitor/serve/web/0"
    assert job["kubernetes_sd_configs"] == [
        {"role": "endpointslice", "kubeconfig_file": "/k", "namespaces": {"names": ["serve"]}}
    ]


def test_a_pod_monitor_is_relabelled_as_the_operator_does() -> None:
    job = job_of(
        "PodMonitor",
        {
            "targetPort": 8000,
            "metricRelabelings": [{"sourceLabels": ["a"], "separator": "", "action": "drop"}],
        },
        selector={
            "matchLabels": {"app": "train"},
            "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}],
        },
        namespaceSelector={"any": True},
        podTargetLabels=["team"],
        jobLabel="app",
        attachMetadata={"node": True},
    )
    pod = "__meta_kubernetes_pod_"
    assert job["relabel_configs"] == [
        {"source_labels": ["job"], "target_label": "__tmp_prometheus_job_name"},
        {"target_label": "cluster", "replacement": "lab"},
        {"action": "drop", "source_labels": [f"{pod}phase"], "regex": "(Failed|Succeeded)"},
        {
            "action": "keep",
            "source_labels": [f"{pod}label_app", f"{pod}labelpresent_app"],
            "regex": "(train);true",
        },
        {"action": "drop", "source_labels": [f"{pod}labelpresent_old"], "regex": "true"},
        {"action": "keep", "source_labels": [f"{pod}container_port_number"], "regex": "8000"},
        {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        {"source_labels": [f"{pod}container_name"], "target_label": "container"},
        {"source_labels": [f"{pod}name"], "target_label": "pod"},
        {
            "source_labels": [f"{pod}label_team"],
            "target_label": "team",
            "regex": "(.+)",
            "replacement": "${1}",
        },
        {"target_label": "job", "replacement": "serve/web"},
        {"source_labels": [f"{pod}label_app"], "target_label": "job", "regex": "(.+)", "replacement": "${1}"},
        {"target_label": "endpoint", "replacement": "8000"},
    ]
    assert job["job_name"] == "podMonitor/serve/web/0"
    assert job["metric_relabel_configs"] == [{"source_labels": ["a"], "separator": "", "action": "drop"}]
    assert job["kubernetes_sd_configs"] == [
        {
            "role": "pod",
            "kubeconfig_file": "/k",
            "selectors": [{"role": "pod", "label": "app in (train),!old"}],
            "attach_metadata": {"node": True},
        }
    ]


def test_everything_else_that_a_monitor_says_is_taken_over(tmp_path: Path) -> None:
    endpoint = {
        "targetPort": "web",
        "path": "/m",
        "scheme": "HTTPS",
        "interval": "10s",
        "scrapeTimeout": "5s",
        "params": {"a": ["1", "2"]},
        "honorLabels": True,
        "honorTimestamps": False,
        "filterRunning": False,
        "proxyUrl": "http://proxy:1",
        "followRedirects": False,
        "enableHttp2": True,
        "trackTimestampsStaleness": True,
        "basicAuth": {"username": {"name": "api", "key": "user"}, "password": {"name": "api", "key": "pass"}},
        "tlsConfig": {
            "ca": {"configMap": {"name": "trust", "key": "ca"}},
            "serverName": "web",
            "insecureSkipVerify": True,
            "minVersion": "TLS12",
        },
    }
    limits = {
        "sampleLimit": 10,
        "targetLimit": 11,
        "labelLimit": 12,
        "labelNameLengthLimit": 13,
        "labelValueLengthLimit": 14,
        "keepDroppedTargets": 15,
        "bodySizeLimit": "1MB",
        "scrapeProtocols": ["PrometheusText0.0.4"],
    }
    job = job_of("ServiceMonitor", endpoint, **limits)
    assert job["tls_config"].pop("ca") == "ConfigMap:trust:ca"
    (config,) = load_scrape_configs({"scrape_configs": [job]}, tmp_path)
    assert config.metrics_path == "/m"
    assert (config.scheme, config.proxy_url) == ("https", "http://proxy:1")
    assert (config.scrape_interval.seconds, config.scrape_timeout.seconds) == (10, 5)
    assert config.params == {"a": ("1", "2")}
    assert (config.honor_labels, config.honor_timestamps, config.follow_redirects) == (True, False, False)
    assert config.request_headers() == [("Authorization", "Basic dTpw")]
    assert (config.tls_config.server_name, config.tls_config.min_version) == ("web", "TLS12")
    assert config.tls_config.insecure_skip_verify
    assert (config.sample_limit, config.target_limit, config.label_limit) == (10, 11, 12)
    assert (config.label_name_length_limit, config.label_value_length_limit) == (13, 14)
    assert (config.keep_dropped_targets, config.body_size_limit) == (15, 1024**2)
    assert config.scrape_protocols == ("PrometheusText0.0.4",)
    steps = job["relabel_configs"]
    named = "__meta_kubernetes_pod_container_port_name"
    assert {"action": "keep", "source_labels": [named], "regex": "web"} in steps
    assert not any("pod_phase" in str(step) for step in steps)


@pytest.mark.parametrize(
    ("endpoint", "label", "port"),
    [
        ({"port": "web", "portNumber": 1, "targetPort": 2}, "name", "web"),
        ({"portNumber": 8000, "targetPort": "web"}, "number", "8000"),
        ({"targetPort": "web"}, "name", "web"),
        ({"targetPort": 8000}, "number", "8000"),
    ],
)
def test_a_pod_monitor_names_its_port_in_three_ways(endpoint: dict[str, Any], label: str, port: str) -> None:
    steps = job_of("PodMonitor", endpoint)["relabel_configs"]
    kept = {"source_labels": [f"__meta_kubernetes_pod_container_port_{label}"], "regex": port}
    assert {"action": "keep", **kept} in steps
    assert {"target_label": "endpoint", "replacement": port} in steps


@pytest.mark.parametrize(
    ("signed", "header"),
    [
        ({"bearerTokenSecret": {"name": "api", "key": "token"}}, "Bearer t0k3n"),
        ({"authorization": {"credentials": {"name": "api", "key": "token"}}}, "Bearer t0k3n"),
        (
            {"authorization": {"type": "Token ", "credentials": {"name": "api", "key": "token"}}},
            "Token t0k3n",
        ),
    ],
)
def test_it_signs_in(signed: dict[str, Any], header: str, tmp_path: Path) -> None:
    for kind in ("ServiceMonitor", "PodMonitor"):
        (config,) = load_scrape_configs({"scrape_configs": [job_of(kind, signed)]}, tmp_path)
        assert config.request_headers() == [("Authorization", header)]


@pytest.mark.parametrize(
    ("endpoint", "spec", "why"),
    [
        ({"oauth2": {"tokenUrl": "http://a"}}, {}, "oauth2 is not supported yet"),
        ({"noProxy": "a"}, {}, "noProxy is not supported"),
        ({}, {"scrapeClass": "tls"}, "the scrape class 'tls'"),
        ({}, {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}, "'Near' is no operator"),
        (
            {"bearerTokenSecret": {"name": "hidden", "key": "t"}},
            {},
            "the Secret serve/hidden may not be read",
        ),
        ({"bearerTokenFile": "/var/run/token"}, {}, "bearerTokenFile names a file, /var/run/token"),
        ({"tlsConfig": {"caFile": "/etc/ca"}}, {}, "caFile names a file"),
    ],
)
def test_what_cannot_be_done_as_asked_is_not_done_at_all(
    endpoint: dict[str, Any], spec: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        job_of("ServiceMonitor", endpoint, **spec)


def test_files_are_for_monitors_that_are_trusted() -> None:
    endpoint = {
        "bearerTokenFile": "/token",
        "tlsConfig": {"caFile": "/ca", "certFile": "/c", "keyFile": "/k"},
    }
    job = job_of("ServiceMonitor", endpoint, SCOPE._replace(files=True))
    assert job["bearer_token_file"] == "/token"
    assert job["tls_config"] == {"ca_file": "/ca", "cert_file": "/c", "key_file": "/k"}


def test_certificates_come_from_secrets() -> None:
    tls = {
        "ca": {"secret": {"name": "s", "key": "ca"}},
        "cert": {"secret": {"name": "s", "key": "crt"}},
        "keySecret": {"name": "s", "key": "key"},
    }
    job = job_of("PodMonitor", {"tlsConfig": tls})
    assert job["tls_config"] == {"ca": "Secret:s:ca", "cert": "Secret:s:crt", "key": "Secret:s:key"}


def test_only_namespaces_that_the_cluster_is_looked_at_in() -> None:
    scope = SCOPE._replace(namespaces=("serve", "train"), prefix="lab/")

    def namespaces(selector: dict[str, Any]) -> list[str]:
        job = job_of("ServiceMonitor", {}, scope, namespaceSelector=selector)
        assert job["job_name"] == "lab/serviceMonitor/serve/web/0"
        return list(job["kubernetes_sd_configs"][0]["namespaces"]["names"])

    assert namespaces({}) == ["serve"]
    assert namespaces({"any": True}) == ["serve", "train"]
    assert namespaces({"matchNames": ["train", "other"]}) == ["train"]
    with pytest.raises(ConfigError, match="looks at other only"):
        namespaces({"matchNames": ["other"]})


def test_a_target_has_the_labels_of_the_operator(tmp_path: Path) -> None:
    job = job_of(
        "ServiceMonitor", {"port": "http"}, selector={"matchLabels": {"app": "vllm"}}, jobLabel="app"
    )
    (config,) = load_scrape_configs({"scrape_configs": [job]}, tmp_path)
    meta = "__meta_kubernetes_"
    discovered = {
        "__address__": "10.0.0.1:80",
        f"{meta}namespace": "serve",
        f"{meta}service_name": "web",
        f"{meta}service_label_app": "vllm",
        f"{meta}service_labelpresent_app": "true",
        f"{meta}endpointslice_port_name": "http",
        f"{meta}endpointslice_address_target_kind": "Pod",
        f"{meta}endpointslice_address_target_name": "web-0",
        f"{meta}pod_name": "web-0",
        f"{meta}pod_container_name": "main",
        f"{meta}pod_phase": "Running",
    }
    target = build_target(discovered, config)
    assert isinstance(target, Target)
    assert dict(target.labels) == {
        "cluster": "lab",
        "namespace": "serve",
        "service": "web",
        "pod": "web-0",
        "container": "main",
        "endpoint": "http",
        "job": "vllm",
        "instance": "10.0.0.1:80",
    }
    assert not isinstance(build_target({**discovered, f"{meta}pod_phase": "Failed"}, config), Target)


def test_a_prometheus_takes_the_relabelling_as_it_is(tmp_path: Path) -> None:
    pods = {"targetPort": 80, "bearerTokenSecret": {"name": "api", "key": "token"}}
    jobs = [
        job_of("ServiceMonitor", {"port": "http", "params": {"a": ["b"]}}, jobLabel="app", sampleLimit=5),
        job_of("PodMonitor", pods, selector={"matchLabels": {"a": "b"}}, attachMetadata={"node": True}),
        *exporter_jobs(SCOPE),
        *annotation_jobs(SCOPE),
    ]
    for job in jobs:  # Debian's Prometheus is too old for one of these, and built without the other
        job.pop("keep_dropped_targets", None)
        del job["kubernetes_sd_configs"]
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump({"scrape_configs": jobs}))
    command = [require_server("promtool"), "check", "config", "--syntax-only", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr


def server(**spec: Any) -> KubeObject:
    return to_object(
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "Prometheus",
            "metadata": {"name": "k8s", "namespace": "monitoring", "uid": "2"},
            "spec": spec,
        }
    )


def namespace(name: str, **labels: str) -> KubeObject:
    return to_object(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "labels": labels}}
    )


@pytest.mark.parametrize(
    ("spec", "home", "expected"),
    [
        ({}, "monitoring", False),  # it selects none unless it says so
        ({"serviceMonitorSelector": {}}, "monitoring", True),
        ({"serviceMonitorSelector": {}}, "serve", False),  # and looks at home only
        ({"serviceMonitorSelector": {}, "serviceMonitorNamespaceSelector": {}}, "serve", True),
        (
            {"serviceMonitorSelector": {}, "serviceMonitorNamespaceSelector": {"matchLabels": {"t": "1"}}},
            "serve",
            True,
        ),
        (
            {"serviceMonitorSelector": {}, "serviceMonitorNamespaceSelector": {"matchLabels": {"t": "2"}}},
            "serve",
            False,
        ),
        ({"serviceMonitorSelector": {"matchLabels": {"release": "p"}}}, "monitoring", True),
        ({"serviceMonitorSelector": {"matchLabels": {"release": "q"}}}, "monitoring", False),
        ({"podMonitorSelector": {}}, "monitoring", False),  # which are others
    ],
)
def test_a_prometheus_selects(spec: dict[str, Any], home: str, expected: bool) -> None:
    found = monitor("ServiceMonitor", {}, namespace=home, labels={"release": "p"})
    known = {"serve": namespace("serve", t="1"), "monitoring": namespace("monitoring")}
    assert is_selected(found, [server(**spec)], known) is expected
    assert not is_selected(found, [], known)


def test_monitors_by_their_labels() -> None:
    found = monitor("PodMonitor", {}, labels={"release": "p", "a": "b"})
    assert has_labels(found, {})
    assert has_labels(found, {"release": "p"})
    assert not has_labels(found, {"release": "p", "c": "d"})


@pytest.mark.parametrize(
    ("operator", "labels", "expected"),
    [
        ("In", {"k": "a"}, True), ("In", {"k": "c"}, False), ("In", {}, False),
        ("NotIn", {"k": "a"}, False), ("NotIn", {"k": "c"}, True), ("NotIn", {}, True),
        ("Exists", {"k": ""}, True), ("Exists", {}, False),
        ("DoesNotExist", {"k": ""}, False), ("DoesNotExist", {}, True),
    ],
)  # fmt: skip
def test_a_requirement_holds(operator: str, labels: dict[str, str], expected: bool) -> None:
    selector = LabelSelector.read(
        {"matchExpressions": [{"key": "k", "operator": operator, "values": ["a", "b"]}]}
    )
    assert selector.matches(labels) is expected
