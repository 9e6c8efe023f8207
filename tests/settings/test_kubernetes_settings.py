"""The clusters that settings name."""

from __future__ import annotations

from pathlib import Path

import pytest

from trilens.collect.kubernetes.intake import KubernetesIntake
from trilens.model.errors import ConfigError
from trilens.settings.kubernetes import ClusterSettings, KubernetesSettings, in_cluster_server
from trilens.settings.load import load_settings


def write(folder: Path, text: str) -> Path:
    file = folder / "trilens.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_clusters_by_name(tmp_path: Path) -> None:
    text = """
kubernetes:
  clusters:
    prod: {in_cluster: true}
    lab: {kubeconfig: lab.yaml, context: l, namespaces: [a, b], leave_out: [Event], add: [Service]}
"""
    clusters = load_settings(write(tmp_path, text), environ={}).kubernetes.clusters
    assert clusters == {
        "prod": ClusterSettings(in_cluster=True),
        "lab": ClusterSettings(
            kubeconfig=Path("lab.yaml"),
            context="l",
            namespaces=("a", "b"),
            leave_out=("Event",),
            add=("Service",),
        ),
    }
    assert clusters["lab"].kubeconfig_beside(tmp_path) == tmp_path / "lab.yaml"
    assert clusters["prod"].kubeconfig_beside(tmp_path) is None
    home = ClusterSettings(kubeconfig=Path("~/config")).kubeconfig_beside(tmp_path)
    assert home == Path.home() / "config"


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        ("{}", "give in_cluster: true, or a kubeconfig"),
        ("{in_cluster: true, kubeconfig: x}", "and not both"),
        ("{in_cluster: true, context: x}", "a context is one of a kubeconfig"),
        ("{kubeconfig: x, kontext: y}", "kontext"),
    ],
)
def test_a_cluster_that_makes_no_sense(tmp_path: Path, cluster: str, expected: str) -> None:
    file = write(tmp_path, f"kubernetes:\n  clusters:\n    prod: {cluster}\n")
    with pytest.raises(ConfigError, match=expected):
        load_settings(file, environ={})


def test_where_a_pod_finds_its_api_server() -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster_server(environ) == "https://10.0.0.1:443"
    assert in_cluster_server({**environ, "KUBERNETES_SERVICE_HOST": "fd00::1"}) == "https://[fd00::1]:443"


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (ClusterSettings(kubeconfig=Path("none.yaml")), "cluster 'lab': .*none.yaml"),
        (ClusterSettings(kubeconfig=Path("x"), leave_out=("Evnt",)), "cluster 'lab': .*'Evnt'.*'Event'"),
    ],
)
def test_what_cannot_be_used_is_said_with_the_clusters_name(
    tmp_path: Path, cluster: ClusterSettings, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        KubernetesIntake(KubernetesSettings(clusters={"lab": cluster}), tmp_path, sink=None)  # type: ignore[arg-type]


def test_every_key_of_a_cluster_is_documented() -> None:
    table = (Path(__file__).parents[2] / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    for name in ClusterSettings.model_fields:
        assert any(f"`{name}`" in row for row in rows), f"{name} is not in docs/kubernetes.md"


@pytest.mark.parametrize(
    ("written", "meant"), [("on", "on"), ("off", "off"), ("auto", "auto"), ("'on'", "on"), ("true", "on")]
)
def test_a_switch_may_be_written_without_quotes(tmp_path: Path, written: str, meant: str) -> None:
    file = write(tmp_path, f"kubernetes:\n  state_metrics: {written}\n")
    assert load_settings(file, environ={}).kubernetes.state_metrics == meant


def test_a_switch_has_three_positions(tmp_path: Path) -> None:
    file = write(tmp_path, "kubernetes:\n  state_metrics: sometimes\n")
    with pytest.raises(ConfigError, match=r"state_metrics.*'auto', 'on' or 'off'"):
        load_settings(file, environ={})
