"""What the chart renders: settings that Trilens takes, and of rules, roles and examples what the code has."""

from __future__ import annotations

import base64
import json
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from chart import (
    BESIDE,
    CASES,
    CHART,
    HOME,
    LARGE,
    VALUES,
    helm,
    of_kind,
    one_of,
    pod_of,
    settings_of,
    template,
)
from tools import chart_files

from command_here import trilens_here
from trilens import __version__
from trilens.cli.rule_export import Format, Placed, exported
from trilens.collect.relabel import RelabelConfig, relabel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT = CHART.parents[2]
NEEDS = yaml.safe_load(VALUES.read_text())["agent"]["needs"]


@pytest.mark.parametrize("values", CASES, ids=lambda file: file.stem)
def test_helm_finds_nothing_wrong(values: Path) -> None:
    said = helm("lint", "--strict", CHART, "--values", values).stdout
    assert "0 chart(s) failed" in said


@pytest.mark.parametrize("values", CASES, ids=lambda file: file.stem)
def test_trilens_takes_the_settings(values: Path, tmp_path: Path) -> None:
    objects = template(values=values)
    tokens = base64.b64decode(one_of(objects, "Secret")["data"]["tokens.yaml"]).decode()
    files = dict.fromkeys(("secret/server-token", "secret/agent-token", "shared/clickhouse-password"), "x")
    key = base64.urlsafe_b64encode(b"k" * 32).decode()
    for file, text in {**files, "secret/tokens.yaml": tokens, "shared/session-key": key}.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    for name in ("trilens", "trilens-agent"):
        text = one_of(objects, "ConfigMap", name)["data"]["trilens.yaml"]
        settings = tmp_path / f"{name}.yaml"
        settings.write_text(text.replace("/etc/trilens/", f"{tmp_path}/"))
        answer = trilens_here("config", "check", str(settings))
        assert answer.returncode == 0, answer.stderr


def test_the_image_is_of_this_version() -> None:
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert about["appVersion"] == __version__
    assert about["version"] == __version__.replace(".dev", "-dev"), "helm wants SemVer"
    assert pod_of(template(), "StatefulSet")["containers"][0]["image"] == f"trilens-server:{__version__}"


def test_files_of_the_chart_are_what_the_code_makes() -> None:
    kept = {
        str(file.relative_to(chart_files.FOLDER)): file.read_text(encoding="utf-8")
        for file in chart_files.FOLDER.rglob("*")
        if file.is_file()
    }
    wanted = chart_files.files()
    assert sorted(kept) == sorted(wanted), "run: make chart"
    assert [path for path in wanted if kept[path] != wanted[path]] == [], "run: make chart"


def test_rules_are_those_of_the_export() -> None:
    rendered = of_kind(template(values=BESIDE), "PrometheusRule")
    told = [yaml.safe_load(text) for _, text in exported(Format.PROMETHEUS_RULE, {}, Placed())]
    assert {one["metadata"]["name"]: one["spec"] for one in rendered} == {
        one["metadata"]["name"]: one["spec"] for one in told
    }
    assert all(one["metadata"]["labels"]["release"] == "kube-prometheus-stack" for one in rendered)


@pytest.mark.parametrize(
    ("flags", "settings", "suffix"),
    [
        ((), (), ""),
        (("--why",), (), "-why"),
        (("--fix",), ("rbac.fix=true",), "-fix"),
        (("-n", "ml", "-n", "serve"), ("cluster.namespaces={ml,serve}",), ""),
        (("--why", "-n", "ml"), ("cluster.namespaces={ml}",), "-why"),
        (("--fix", "-n", "ml"), ("cluster.namespaces={ml}", "rbac.fix=true"), "-fix"),
        (
            ("--add", "Service", "--add", "EndpointSlice.discovery.k8s.io"),
            ("cluster.monitors=all",),
            "",
        ),
    ],
)
def test_roles_are_those_of_the_command(
    flags: tuple[str, ...], settings: tuple[str, ...], suffix: str
) -> None:
    printed = trilens_here("kubernetes", "rbac", *flags, "--service-account", f"{HOME}/trilens").stdout
    told = [one for one in yaml.safe_load_all(printed) if one["kind"] in ("Role", "ClusterRole")]
    names = (f"trilens{suffix}", f"{HOME}-trilens{suffix}")
    rendered = [
        one
        for kind in ("Role", "ClusterRole")
        for one in of_kind(template(*settings), kind)
        if one["metadata"]["name"] in names
    ]
    assert _granted(rendered) == _granted(told)
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in of_kind(template(*settings), kind):
            assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "trilens", "namespace": HOME}]


def test_fixing_is_granted_only_when_asked_for() -> None:
    verbs = {verb for _, rules in _granted([*of_kind(template(), "ClusterRole")]) for *_, verb in rules}
    assert verbs == {"get", "list", "watch"}
    assert of_kind(template("rbac.create=false"), "ClusterRole") == []


def test_replicas_may_agree_on_who_leads() -> None:
    role = one_of(template(values=LARGE), "Role", "trilens-lead")
    assert role["metadata"]["namespace"] == HOME
    of_leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    assert role["rules"] == [
        {**of_leases, "verbs": ["create"]},
        {**of_leases, "verbs": ["get", "update"], "resourceNames": ["trilens"]},
    ]
    assert of_kind(template(), "Role") == []


def test_a_lease_of_yours_is_the_one_that_is_granted() -> None:
    several = "server.replicas=2,config.storage.url=u,config.replicas.lease=leases/mine"
    role = one_of(template(several), "Role", "trilens-lead")
    assert (role["metadata"]["namespace"], role["rules"][1]["resourceNames"]) == ("leases", ["mine"])


def test_agents_are_found_where_only_others_are_watched() -> None:
    role = one_of(template("cluster.namespaces={ml}"), "Role", "trilens-agents")
    assert (role["metadata"]["namespace"], role["rules"][0]["resources"]) == (HOME, ["pods"])


def test_exporters_are_found_where_no_workload_is_looked_at() -> None:
    """The namespaces that are watched are granted already, and without any all are."""
    named = "cluster.exporterNamespaces={gpu-operator,ml,gpu-operator}"
    roles = of_kind(template("cluster.namespaces={ml}", named), "Role")
    (role,) = [one for one in roles if one["metadata"]["name"] == "trilens-exporters"]
    assert role["metadata"]["namespace"] == "gpu-operator"
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]}]
    assert of_kind(template(named), "Role") == []


def test_agents_of_another_cluster_are_asked_beside_its_own() -> None:
    """Pods by the port of that name, with their node and this cluster; what is added is as it says itself."""
    targets = "config.agents.scrape_config.static_configs[0].targets[0]=10.0.0.1:9334"
    of_west = "config.agents.scrape_config.static_configs[0].labels.cluster=west"
    scrape = settings_of(template(targets, of_west))["agents"]["scrape_config"]
    assert scrape["static_configs"][0]["targets"] == ["10.0.0.1:9334"]
    assert scrape["kubernetes_sd_configs"], "its own are found as before"
    steps = [RelabelConfig.model_validate(step) for step in scrape["relabel_configs"]]

    def asked(**labels: str) -> dict[str, str] | None:
        found = relabel(labels, steps)
        return found and {name: found.get(name, "") for name in ("cluster", "node")}

    pod, port, node = (
        f"__meta_kubernetes_pod_{name}" for name in ("name", "container_port_name", "node_name")
    )
    assert asked(**{pod: "p", port: "agent", node: "n1"}) == {"cluster": "main", "node": "n1"}
    assert asked(**{pod: "p", port: "of-a-mesh", node: "n1"}) is None
    assert asked(cluster="west", node="w1") == {"cluster": "west", "node": "w1"}
    assert asked(cluster="west") == {"cluster": "west", "node": ""}
    assert asked(node="w1") == {"cluster": "", "node": "w1"}, "where nobody says it, nobody guesses"


def test_agents_elsewhere_are_asked_with_the_token_where_there_are_no_own() -> None:
    targets = "config.agents.scrape_config.static_configs[0].targets[0]=10.0.0.1:9334"
    scrape = settings_of(template("agent.enabled=false", targets))["agents"]["scrape_config"]
    assert [*scrape] == ["authorization", "static_configs"]
    assert "agents" not in settings_of(template("agent.enabled=false"))


@pytest.mark.parametrize(
    "file", sorted((ROOT / "deploy" / "keda").glob("*.yaml")), ids=lambda file: file.stem
)
def test_scaled_objects_are_those_of_the_examples(file: Path) -> None:
    example = yaml.safe_load(file.read_text().split("\n---\n")[-1])
    if example["kind"] != "ScaledObject":
        example["metadata"]["name"] = "x"
        rendered = template(
            "keda.enabled=true",
            "keda.services[0].name=x",
            "keda.services[0].namespace=ml",
            "keda.services[0].engine=vllm",
        )
        assert one_of(rendered, "TriggerAuthentication", "trilens")["spec"] == example["spec"]
        return
    name, namespace = example["metadata"]["name"], example["metadata"]["namespace"]
    service = f"keda.services[0].name={name},keda.services[0].namespace={namespace}"
    rendered = template("keda.enabled=true", service, f"keda.services[0].engine={file.stem}")
    made = one_of(rendered, "ScaledObject", name)
    for trigger in made["spec"]["triggers"]:
        assert trigger["metadata"].pop("serverAddress") == f"http://trilens.{HOME}:9333"
    for trigger in example["spec"]["triggers"]:
        del trigger["metadata"]["serverAddress"]
    assert made["spec"] == example["spec"]


def test_dashboards_are_config_maps_for_the_sidecar(tmp_path: Path) -> None:
    """Of a copy of the chart, since which dashboards there are is not this test's matter."""
    chart = shutil.copytree(CHART, tmp_path / "trilens")
    shutil.rmtree(chart / "dashboards", ignore_errors=True)
    (chart / "dashboards").mkdir()
    assert _dashboards(chart) == []
    (chart / "dashboards" / "fleet.json").write_text('{"title": "{{ fleet }}"}')
    (made,) = _dashboards(chart)
    assert made["metadata"]["name"] == "trilens-dashboard-fleet"
    assert made["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert made["data"]["fleet.json"].strip() == '{"title": "{{ fleet }}"}'


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ("image.tag=v7", "http://localhost:9333"),
        ("server.ingress.enabled=true,server.ingress.host=t.example", "http://t.example"),
        ("config.server.external_url=https://gpus.example/", "https://gpus.example"),
    ],
)
def test_dashboards_lead_to_where_people_reach_it(settings: str, address: str) -> None:
    made = one_of(template("dashboards.enabled=true", settings), "ConfigMap", "trilens-dashboard-fleet")
    variables = json.loads(made["data"]["fleet.json"])["templating"]["list"]
    assert [one["query"] for one in variables if one["name"] == "trilens"] == [address]


# Groups that Kubernetes is given as they are, with one comment for all that is in them.
EXPLAINED_AS_ONE = ("resources", "probes", "podSecurityContext", "securityContext", "updateStrategy")


def test_every_value_is_explained() -> None:
    """On its line or directly above it; `enabled`, and what is in a group that is one value, by the group."""
    assert [one for one, told in _explained(VALUES.read_text().splitlines()) if not told] == []


def test_what_is_not_explained_is_found() -> None:
    text = """
# Above a group is not of what is in it.
a:
  one: 1
  two: 2  # on its line
  # Directly above.
  three: 3
  four: 4
b: # of what turns it on
  enabled: true
  resources:
    limits: {memory: 1Gi}
# Of all in it.
probes:
  liveness: {periodSeconds: 1}
# A list.
tolerations:
  - operator: Exists
mounts:
  - name: a
"""
    bare = [one for one, told in _explained(text.splitlines()) if not told]
    assert bare == ["a.one", "a.four", "b.resources.limits", "mounts"]


def _explained(lines: list[str]) -> Iterator[tuple[str, bool]]:
    """Each value that is no group of others, and whether a comment is about it."""
    above = False
    groups: list[tuple[int, str, bool]] = []  # how far in, name, and whether a comment is about it
    for line in lines:
        if line.strip().startswith("- "):  # of a list, which is one value
            yield ".".join(one for _, one, _ in groups), groups[-1][2]
        key = re.match(r"( *)(\w+):(.*)", line)
        if key is None:
            above = line.strip().startswith("#")
            continue
        depth, name, value = len(key[1]), key[2], key[3].partition(" #")[0].strip()
        groups = [group for group in groups if group[0] < depth]
        told = above or " #" in line
        above = False
        if not value:
            groups.append((depth, name, told))
            continue
        of_group = any(known and one in EXPLAINED_AS_ONE for _, one, known in groups)
        turned_on = name == "enabled" and bool(groups) and groups[-1][2]
        yield ".".join([*(one for _, one, _ in groups), name]), told or of_group or turned_on


def _dashboards(chart: Path) -> list[dict[str, Any]]:
    text = helm("template", "trilens", chart, "--set", "dashboards.enabled=true").stdout
    return [one for one in yaml.safe_load_all(text) if one and "-dashboard-" in one["metadata"]["name"]]


def _granted(roles: list[dict[str, Any]]) -> list[tuple[str, set[tuple[str, ...]]]]:
    """Where, and what: each verb on each resource, with the names that it is for."""
    return sorted(
        (
            role["metadata"].get("namespace", ""),
            {
                (group, resource, ",".join(sorted(rule.get("resourceNames", []))), verb)
                for rule in role["rules"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            },
        )
        for role in roles
    )
