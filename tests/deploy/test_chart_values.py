"""Each value of the chart has its effect, and a wrong one is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from chart import (
    ALONE,
    BESIDE,
    LARGE,
    SCHEMA,
    VALUES,
    notes,
    of_kind,
    one_of,
    pod_of,
    refusal,
    settings_of,
    template,
)

from trilens import __version__
from trilens.diagnose.scheduling.nodes import GPU_LABELS

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
Objects = tuple[Json, ...]
_WRITTEN = (Path(__file__).parent / "value_effects.yaml").read_text()
EFFECTS = [
    (effect, tuple(dict.fromkeys(one["set"] for one in together)))
    for together in yaml.safe_load_all(_WRITTEN.replace("VERSION", __version__))
    for effect in together
]
HANDED_ON = ("resources", "podSecurityContext", "securityContext", "affinity", "updateStrategy")
PLACES = {
    "server": ("StatefulSet", "spec", "template", "spec"),
    "agent": ("DaemonSet", "spec", "template", "spec"),
    "settings": ("ConfigMap trilens", "data", "trilens.yaml"),
    "agent settings": ("ConfigMap trilens-agent", "data", "trilens.yaml"),
}


@pytest.mark.parametrize(
    ("effect", "settings"), EFFECTS, ids=[f"{effect['set']} at {effect['at']}" for effect, _ in EFFECTS]
)
def test_a_value_has_its_effect(effect: Json, settings: tuple[str, ...]) -> None:
    assert standing(template(), effect["at"]) == effect["before"]
    assert standing(template(*settings), effect["at"]) == effect["then"]


def test_every_value_is_tried() -> None:
    """What is handed on as it is, is one value. Checks have tests of their own."""

    def known_as(value: str) -> str:
        keys = value.partition("[")[0].split(".")
        end = next((n for n, key in enumerate(keys, 1) if key in HANDED_ON), len(keys))
        return ".".join(keys[:end])

    tried = {known_as(word) for word in _set()}
    values = {known_as(value) for value in values_of(yaml.safe_load(VALUES.read_text()))}
    untried = {one for one in values - tried if not any(word.startswith(f"{one}.") for word in tried)}
    assert {one for one in untried if not one.endswith(".check")} == set()


@pytest.mark.parametrize("group", ["secretMounts", "keda.services", "image.pullSecrets"])
def test_every_value_of_an_entry_is_tried(group: str) -> None:
    """Which values.yaml does not have, as its lists are empty."""
    known = json.loads(SCHEMA.read_text())
    for name in group.split("."):
        known = known["properties"][name]
    tried = {word.removeprefix(f"{group}[0].") for word in _set() if word.startswith(f"{group}[0].")}
    assert tried == known["items"]["properties"].keys()


def _set() -> list[str]:
    return [word.partition("=")[0] for effect, _ in EFFECTS for word in effect["set"].split(",")]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("servr.replicas=2", "servr is not allowed"),
        ("server.resource.limits.cpu=1", "resource is not allowed"),
        ("agent.needs.kmsg.enabled=true", "kmsg is not allowed"),
        ("server.replicas=0", "server.replicas"),
        ("server.replicas=two", "server.replicas"),
        ("server.persistence.size=many", "server.persistence.size"),
        ("server.persistence.size=1ki", "server.persistence.size"),
        ("server.service.type=External", "server.service.type"),
        ("server.service.port=99999", "server.service.port"),
        ("server.ingress.enabled=true", "server.ingress.host"),
        ("server.ingress.from={0.0.0.0/0}", "server.ingress.from"),
        ("cluster.monitors=some", "cluster.monitors"),
        ("cluster.name=", "cluster.name"),
        ("agent.needs.kernelLog.from=dmesg", "agent.needs.kernelLog.from"),
        ("agent.needs.kernelLog.from=/dev/kmsg", 'or "kmsg" for /dev/kmsg'),
        ("agent.needs.kernelLog.from=/proc/kmsg", "/proc would take the place of the container's own"),
        ("agent.needs.kernelLog.from=/var/../kern.log", "the node's / would take the place"),
        ("agent.needs.kernelLog.from=/var/log/pods/kern.log", "where something else is mounted"),
        ("agent.needs.kernelLog.from=/var/lib/trilens-agent/kern.log", "where something else is mounted"),
        *(
            (f"config.source.url=http://prometheus,cluster.{scraped}", f"{name}: with config.source.url")
            for scraped in ("exporters=true", "annotations=true", "monitors=all")
            for name in [f"cluster.{scraped.partition('=')[0]}"]
        ),
        ("agent.needs.podLogs.hostPath=logs", "agent.needs.podLogs.hostPath"),
        ("image.pullPolicy=Sometimes", "image.pullPolicy"),
        ("serviceMonitor.interval=soon", "serviceMonitor.interval"),
        ("secretMounts[0].name=x", "mountPath is required"),
        ("keda.services[0].name=x", "engine is required"),
        ("keda.services[0].name=x,keda.services[0].namespace=y,keda.services[0].engine=gpt", "engine"),
        ("server.podDisruptionBudget.maxUnavailable=0", "server.podDisruptionBudget.maxUnavailable"),
        ("server.podDisruptionBudget.maxUnavailable=0%", "server.podDisruptionBudget.maxUnavailable"),
        ("image.agent.digest=latest", "image.agent.digest"),
        ("secret.serverTokenKey=token,secret.agentTokenKey=token", "secret.agentTokenKey"),
        ("server.replicas=2", "set config.storage.url"),
        ("server.replicas=2,config.storage.url=u,server.persistence.existingClaim=c", "for one replica"),
        (
            "server.persistence.enabled=false,server.persistence.existingClaim=c",
            "server.persistence.existingClaim",
        ),
        ("server.serviceAccount.create=false", "server.serviceAccount.name"),
        ("server.enabled=false", "secret.existingSecret"),
        ("server.enabled=false,agent.enabled=false,secret.existingSecret=s", "one of them at least"),
        (
            "server.enabled=false,secret.existingSecret=s,networkPolicy.enabled=true",
            "networkPolicy.agentFrom",
        ),
        ("agent.hostPort=70000", "agent.hostPort"),
        ("agent.needs.podLogs.enabled=false", "agent.needs.terminationMessages.enabled: whose they are"),
        ("server.enabled=null", "enabled is required"),
        ("secret.serverTokenKey=reader-token", "the token that may only read"),
        *(
            (f"server.enabled=false,secret.existingSecret=s,server.ingress.host=h,{part}.enabled=true", said)
            for part in ("server.ingress", "prometheusRule", "dashboards", "keda")
            for said in [f"{part}.enabled: it belongs to the server"]
        ),
    ],
)
def test_a_wrong_value_is_refused(settings: str, said: str) -> None:
    assert said in refusal(settings)


def test_an_emptied_group_is_refused_by_its_name() -> None:
    """As `needs:` of a file whose lines below are comments; not as an error of a template."""
    groups = [*groups_of(yaml.safe_load(VALUES.read_text()))]
    assert len(groups) > 25
    for depth in range(max(one.count(".") for one in groups) + 1):
        emptied = [one for one in groups if one.count(".") == depth]
        said = refusal(",".join(f"{one}=null" for one in emptied))
        for one in emptied:
            parent, _, name = one.rpartition(".")
            assert f"- {parent or '(root)'}: {name} is required" in said, one


def test_an_emptied_text_is_not_given() -> None:
    """Also where it decides on http or https."""
    values = yaml.safe_load(VALUES.read_text())
    known = [one for one in values_of(values) if not {*HANDED_ON} & {*one.split(".")}]
    empty = [one for one in known if _at(values, one) in ("", False, 0)]
    assert {"server.tls.secretName", "agent.tls.secretName", "server.ingress.tlsSecret"} <= {*empty}
    ingress = "server.ingress.enabled=true,server.ingress.host=t.example"
    nothing = ",".join(f"{one}=null" for one in empty if one not in ingress)
    assert _without_secrets(template(ingress, nothing)) == _without_secrets(template(ingress))


@pytest.mark.parametrize(
    "settings",
    [
        "config=null",
        "config.storage=null",
        "config.server=null",
        "agent.config=null",
        "cluster.namespaces=null",
        "cluster.exporterNamespaces=null",
    ],
)
def test_what_is_left_empty_is_not_given(settings: str) -> None:
    """As `config:` and `storage:` of a file whose lines below are comments."""
    empty = template(settings)
    assert settings_of(empty) == settings_of(template())
    assert settings_of(empty, "trilens-agent") == settings_of(template(), "trilens-agent")


def test_a_proxy_of_yours_is_another_than_the_ingress() -> None:
    """It may know who asks: of what the ingress is known not to, nothing is left."""
    ingress = "server.ingress.enabled=true,server.ingress.host=t.example,server.ingress.from={10.1.0.0/16}"
    settings = settings_of(template(ingress, "config.access.proxy.trusted={10.2.0.0/16}"))
    assert settings["access"]["proxy"] == {"trusted": ["10.2.0.0/16"]}


@pytest.mark.parametrize(
    ("known", "wide"),
    [
        ("{10.1.0.7,fd00:7::1}", ""),
        ("{10.1.0.0/24,fd00:7::/64}", ""),
        ("{10.1.0.7,10.244.0.0/16,fd00::/48}", "(10.244.0.0/16, fd00::/48)"),
    ],
)
def test_helm_warns_where_every_pod_could_be_anybody(known: str, wide: str, tmp_path: Path) -> None:
    ingress = f"server.ingress.enabled=true,server.ingress.host=t.example,server.ingress.from={known}"
    told = notes(tmp_path / "from", ingress)
    assert "does not know which address is the ingress's" not in told
    assert told.count("server.ingress.from has whole networks") == bool(wide)
    assert wide in told
    of_yours = notes(tmp_path / "proxy", ingress, "config.access.proxy.trusted={10.2.0.7}")
    assert "whole networks" not in of_yours, "it is not asked then"


@pytest.mark.parametrize(
    ("given", "how"),
    [
        ("caKey=", {"serverName": "trilens.observability.svc"}),
        (
            "caKey=mine.crt",
            {
                "serverName": "trilens.observability.svc",
                "ca": {"secret": {"name": "cert", "key": "mine.crt"}},
            },
        ),
    ],
)
def test_prometheus_checks_the_certificate_of_the_server(given: str, how: Json) -> None:
    objects = template(f"serviceMonitor.enabled=true,server.tls.secretName=cert,server.tls.{given}")
    endpoints = one_of(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert [one["tlsConfig"] for one in endpoints] == [how] * len(endpoints)


@pytest.mark.parametrize("given", ["ca.configMap.name=mine", "caFile=/ca.crt", "insecureSkipVerify=true"])
def test_an_authority_that_is_given_is_the_only_one(given: str) -> None:
    """Prometheus's operator refuses a monitor with two."""
    settings = f"serviceMonitor.enabled=true,server.tls.secretName=cert,serviceMonitor.tlsConfig.{given}"
    (endpoint, *_) = one_of(template(settings), "ServiceMonitor")["spec"]["endpoints"]
    assert "secret" not in endpoint["tlsConfig"].get("ca", {})


def test_without_roles_the_server_may_have_the_account_of_all_pods() -> None:
    objects = template("rbac.create=false,server.serviceAccount.create=false")
    assert pod_of(objects, "StatefulSet")["serviceAccountName"] == "default"


def test_pods_listen_where_they_are_asked() -> None:
    for kind, name, section in (
        ("StatefulSet", "trilens", "server"),
        ("DaemonSet", "trilens-agent", "agent"),
    ):
        (port,) = pod_of(template(), kind)["containers"][0]["ports"]
        assert settings_of(template(), name)[section]["listen"] == f"0.0.0.0:{port['containerPort']}"
    settings = settings_of(template("config.server.listen=[::]:9333"))
    assert settings["server"]["listen"] == "[::]:9333"


def test_names_are_none_twice() -> None:
    """Also where a namespace and a release have names as long as they may be."""
    objects = template(
        f"fullnameOverride={'x' * 50},rbac.fix=true,cluster.namespaces={{ml}},server.replicas=2",
        "config.storage.url=u,networkPolicy.enabled=true,dashboards.enabled=true",
        f"prometheusRule.enabled=true,secretMounts[0].name={'y' * 63},secretMounts[0].mountPath=/y",
        namespace="n" * 63,
    )
    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects]
    assert sorted(set(names)) == sorted(names)
    assert all(len(volume["name"]) <= 63 for volume in pod_of(objects, "StatefulSet")["volumes"])


def test_agents_run_wherever_a_label_says_that_there_are_gpus() -> None:
    (terms,) = pod_of(template(), "DaemonSet")["affinity"]["nodeAffinity"].values()
    says_no = {"operator": "NotIn", "values": ["false", "0"]}
    assert [one["matchExpressions"] for one in terms["nodeSelectorTerms"]] == [
        [{"key": label, **says_no}, {"key": label, "operator": "Exists"}] for label in GPU_LABELS
    ]


@pytest.mark.parametrize("given", ["agent.affinity.nodeAffinity.x=y", "agent.nodeSelector.x=y"])
def test_where_agents_run_may_be_said_instead(given: str) -> None:
    pod = pod_of(template(given), "DaemonSet")
    stands = {name: pod[name] for name in ("affinity", "nodeSelector") if name in pod}
    assert stands in ({"affinity": {"nodeAffinity": {"x": "y"}}}, {"nodeSelector": {"x": "y"}})


def test_another_version_of_the_chart_alone_restarts_no_pod() -> None:
    for kind in ("StatefulSet", "DaemonSet"):
        (made,) = of_kind(template(), kind)
        assert "helm.sh/chart" in made["metadata"]["labels"]
        assert "helm.sh/chart" not in made["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize("values", [VALUES, BESIDE, ALONE, LARGE], ids=lambda file: file.stem)
def test_the_server_needs_no_privilege(values: Path) -> None:
    pod = pod_of(template(values=values), "StatefulSet")
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPath" in volume for volume in pod["volumes"])


def test_an_agent_gets_no_token_of_the_cluster() -> None:
    assert pod_of(template(), "DaemonSet")["automountServiceAccountToken"] is False
    assert [one["key"] for one in pod_of(template(), "DaemonSet")["volumes"][1]["secret"]["items"]] == [
        "agent-token"
    ]


def test_beside_a_prometheus_that_one_has_the_samples() -> None:
    objects = template(values=BESIDE)
    assert "source" in settings_of(objects)
    assert "exporters" not in settings_of(objects)["kubernetes"]["clusters"]["main"]
    assert {"ServiceMonitor", "PrometheusRule"} <= {one["kind"] for one in objects}
    endpoints = one_of(objects, "ServiceMonitor")["spec"]["endpoints"]
    jobs = {one["path"]: one["relabelings"] for one in endpoints}
    assert [("metricRelabelings" in one, one.get("params")) for one in endpoints] == [
        (False, None),
        (True, {"own": ["true"]}),
    ]
    assert endpoints[1]["metricRelabelings"] == [{"action": "labeldrop", "regex": "instance"}]
    no_own_pod = {"action": "labeldrop", "regex": "container|endpoint|namespace|pod|service"}
    # The name that rules look for, and none twice: `up` of two paths of one job would be one series.
    assert jobs == {
        "/metrics": [{"targetLabel": "job", "replacement": "trilens"}],
        "/metrics/workloads": [{"targetLabel": "job", "replacement": "trilens-workloads"}, no_own_pod],
    }
    agents = one_of(objects, "ServiceMonitor", "trilens-agent")["spec"]["endpoints"][0]["relabelings"]
    assert no_own_pod in agents


def test_alone_it_finds_exporters_itself() -> None:
    objects = template(values=ALONE)
    assert settings_of(objects)["kubernetes"]["clusters"]["main"]["exporters"] is True
    assert not {"ServiceMonitor", "PrometheusRule"} & {one["kind"] for one in objects}


def test_large_has_several_servers_on_one_clickhouse() -> None:
    objects = template(values=LARGE)
    assert of_kind(objects, "StatefulSet")[0]["spec"]["replicas"] == 3
    assert settings_of(objects)["storage"]["password_file"] == "/etc/trilens/shared/clickhouse-password"
    mounts = pod_of(objects, "StatefulSet")["containers"][0]["volumeMounts"]
    assert "/etc/trilens/shared" in {one["mountPath"] for one in mounts}
    assert one_of(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def standing(objects: Objects, place: str) -> object:
    """What stands at a place of value_effects.yaml."""
    first, *rest = place.split("/")
    if "app.kubernetes.io" in rest:  # a key with a slash in it
        at = rest.index("app.kubernetes.io")
        rest[at : at + 2] = ["/".join(rest[at : at + 2])]
    if first == "how many":
        return len(of_kind(objects, rest[0]))
    first, *before = PLACES.get(first, (first,))
    kind, _, name = first.partition(" ")
    found: Any = next((one for one in of_kind(objects, kind) if name in ("", one["metadata"]["name"])), None)
    for key in (*before, *rest):
        found = _inside(found, key)
    return found


def _inside(found: Any, key: str) -> Any:
    if isinstance(found, list):
        if "=" in key:
            name, _, value = key.partition("=")
            return next((one for one in found if one.get(name) == value), None)
        return found[int(key)] if -len(found) <= int(key) < len(found) else None
    inner = found.get(key) if isinstance(found, dict) else None
    return yaml.safe_load(inner) if key == "trilens.yaml" and inner else inner


def groups_of(tree: Json, before: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict) and value and name not in (*HANDED_ON, "labels"):
            yield f"{before}{name}"
            yield from groups_of(value, f"{before}{name}.")


def _at(tree: Json, place: str) -> object:
    found: Any = tree
    for key in place.split("."):
        found = found[key]
    return found


def _without_secrets(objects: Objects) -> list[Json]:
    return [one for one in objects if one["kind"] != "Secret"]


def values_of(tree: Json, before: str = "") -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict) and value:
            yield from values_of(value, f"{before}{name}.")
        else:
            yield f"{before}{name}"
