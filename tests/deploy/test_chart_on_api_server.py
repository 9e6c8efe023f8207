"""The chart on a real API server: every object is taken whole, and nobody may do more than they should."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from chart import ALONE, BESIDE, LARGE, RELEASE, VALUES, of_kind, template
from chart_release import CONFIG_MAPS, DAEMON_SETS, SECRETS, STATEFUL_SETS, Release, new_release
from chart_settings import EVERYTHING
from operator_kinds import KINDS_OF_OPERATORS, PROMETHEUSES

from command_here import trilens_here
from kubernetes_client import NAMESPACES, Resource

if TYPE_CHECKING:
    from pathlib import Path

    from kubernetes_api import KubernetesServer

pytestmark = pytest.mark.whole

Json = dict[str, Any]

_RBAC = "rbac.authorization.k8s.io"
KINDS = {
    **{resource.kind: resource for resource in KINDS_OF_OPERATORS},
    "StatefulSet": STATEFUL_SETS,
    "DaemonSet": DAEMON_SETS,
    "ConfigMap": CONFIG_MAPS,
    "Secret": SECRETS,
    "Service": Resource("", "v1", "services", "Service"),
    "ServiceAccount": Resource("", "v1", "serviceaccounts", "ServiceAccount"),
    "Ingress": Resource("networking.k8s.io", "v1", "ingresses", "Ingress"),
    "NetworkPolicy": Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
    # 1.20 has no policy/v1; what the chart sets is the same in both.
    "PodDisruptionBudget": Resource("policy", "v1beta1", "poddisruptionbudgets", "PodDisruptionBudget"),
    "Role": Resource(_RBAC, "v1", "roles", "Role"),
    "RoleBinding": Resource(_RBAC, "v1", "rolebindings", "RoleBinding"),
    "ClusterRole": Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False),
    "ClusterRoleBinding": Resource(
        _RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
    ),
}


@pytest.fixture(scope="module")
def server(kubernetes_of_module: KubernetesServer) -> KubernetesServer:
    """One that has the kinds of the operators, so that helm knows them."""
    for resource in KINDS_OF_OPERATORS:
        kubernetes_of_module.client().define(resource)
    return kubernetes_of_module


@pytest.fixture
def release(server: KubernetesServer) -> Release:
    return new_release(server)


@pytest.fixture(scope="module")
def small(server: KubernetesServer) -> Release:
    """For what helm tells: to install it again changes little."""
    server.client().create(NAMESPACES, {"metadata": {"name": "monitoring"}})
    return new_release(server)


@pytest.mark.parametrize("values", [VALUES, BESIDE, ALONE, LARGE], ids=lambda file: file.stem)
def test_helm_installs_it_and_every_object_is_there(release: Release, values: Path) -> None:
    """helm itself refuses what its schema does not know; what it lacks is in test_chart_models."""
    # The budget of several replicas has a version that this server lacks: the test below has it.
    without = "server.podDisruptionBudget.enabled=false"
    release.install(without, values=values)
    _is_there(release, template(without, values=values, namespace=release.namespace))


def test_everything_that_can_be_turned_on_at_once(release: Release) -> None:
    settings = [*EVERYTHING, f"keda.services[0].namespace={release.namespace}"]
    release.install(*settings)
    _is_there(release, template(*settings, namespace=release.namespace))


def test_the_budget_of_several_replicas_is_taken(release: Release) -> None:
    (wanted,) = of_kind(template(values=LARGE), "PodDisruptionBudget")
    resource = KINDS["PodDisruptionBudget"]
    body = {"metadata": {"name": wanted["metadata"]["name"]}, "spec": wanted["spec"]}
    assert wanted["apiVersion"] == "policy/v1"
    assert release.server.client().create(resource, body, release.namespace)["spec"] == wanted["spec"]


_OWN_TOKENS = ("server-token", "agent-token")


def test_tokens_are_made_once(release: Release) -> None:
    release.install()
    keys = (*_OWN_TOKENS, "reader-token", "tokens.yaml")
    first = [release.token(key) for key in keys]
    assert len(set(first)) == 4
    assert [len(token) for token in first[:3]] == [40, 40, len("trl_metrics_") + 40]
    release.install("server.podLabels.a=b")
    assert [release.token(key) for key in keys] == first


def test_a_secret_without_the_token_that_reads_gets_one(release: Release) -> None:
    release.install()
    client = release.server.client()
    kept = [release.token(key) for key in _OWN_TOKENS]
    without = {"data": {"reader-token": None, "tokens.yaml": None}}
    client.patch(SECRETS, RELEASE, without, release.namespace)
    release.install()
    assert [release.token(key) for key in _OWN_TOKENS] == kept
    (declared,) = yaml.safe_load(release.token("tokens.yaml"))["tokens"]
    secret = release.token("reader-token").removeprefix(f"trl_{declared['id']}_")
    assert declared["sha256"] == hashlib.sha256(secret.encode()).hexdigest()


def test_other_claims_are_refused_before_anything_is_changed(release: Release) -> None:
    release.install("server.persistence.size=7Gi")
    for other, said in (
        ("server.persistence.size=8Gi", "from 7Gi to 8Gi"),
        ("server.persistence.size=7Gi,server.persistence.existingClaim=c", "from 7Gi to none"),
        (
            "server.persistence.size=7Gi,server.persistence.storageClass=fast",
            'storageClass from "" to "fast"',
        ),
        ("server.persistence.size=7Gi,server.persistence.accessModes={ReadWriteMany}", "accessModes from"),
        (
            "server.persistence.size=7Gi,server.persistence.annotations.a=b",
            'annotations from {} to {"a":"b"}',
        ),
    ):
        assert said in release.refusal(other, "config.server.log_format=text")
    settings = release.server.client().get(CONFIG_MAPS, RELEASE, release.namespace)
    assert "log_format: json" in settings["data"]["trilens.yaml"]
    release.install("server.persistence.size=7Gi,server.podLabels.a=b")


@pytest.mark.parametrize(
    ("size", "kept", "same"),
    [("1024Gi", "1Ti", "1Ti"), ("1.5Ti", "1536Gi", "1.5Ti"), ("0.3Gi", "322122547200m", "0.3Gi")],
)
def test_a_claim_of_the_same_size_is_the_same(release: Release, size: str, kept: str, same: str) -> None:
    """However it is written: the API server keeps the shortest."""
    release.install(f"server.persistence.size={size}")
    (claim,) = release.server.client().get(STATEFUL_SETS, RELEASE, release.namespace)["spec"][
        "volumeClaimTemplates"
    ]
    assert claim["spec"]["resources"]["requests"]["storage"] == kept
    release.install(f"server.persistence.size={same}", "server.podLabels.a=b")
    assert f"from {kept} to 7Gi" in release.refusal("server.persistence.size=7Gi")


def test_helm_warns_where_prometheus_gets_a_token_that_may_do_everything(release: Release) -> None:
    own = {"metadata": {"name": "mine"}, "stringData": {"server-token": "a", "agent-token": "b"}}
    release.server.client().create(SECRETS, own, release.namespace)
    monitored = "serviceMonitor.enabled=true,secret.existingSecret=mine,serviceMonitor.check=false"
    warning = "WARNING: Prometheus is given the server's own token"
    assert warning in release.install(monitored)
    assert warning not in release.install(monitored, "serviceMonitor.token.secretName=reader")


def test_a_secret_of_yours_is_left_alone(release: Release) -> None:
    own = {"metadata": {"name": "mine"}, "stringData": {"server-token": "a", "agent-token": "b"}}
    release.server.client().create(SECRETS, own, release.namespace)
    release.install("secret.existingSecret=mine")
    names = [
        one["metadata"]["name"] for one in release.server.client().list(SECRETS, release.namespace)["items"]
    ]
    assert RELEASE not in names


def _one(operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": "release", "operator": operator, "values": list(values)}]}


LABELLED = {"matchLabels": {"release": "kube-prometheus-stack"}}
OURS = {"matchLabels": {"team": "platform"}}  # the release's namespace has this label


@pytest.mark.parametrize(
    ("selector", "namespaces", "selected"),
    [
        (LABELLED, {}, True),
        ({"matchLabels": {"release": "other"}}, {}, False),
        ({}, {}, True),
        ({}, None, False),
        ({}, OURS, True),
        ({}, {"matchLabels": {"team": "ml"}}, False),
        (_one("Exists"), {}, True),
        (_one("DoesNotExist"), {}, False),
        (_one("In", "x"), {}, False),
        (_one("NotIn", "x"), {}, True),
        (None, {}, False),
    ],
)
def test_helm_warns_when_nothing_selects_the_monitors(
    small: Release, selector: Json | None, namespaces: Json | None, selected: bool
) -> None:
    told = _beside(small, "serviceMonitor", selector, namespaces)
    assert ("WARNING: no Prometheus of this cluster selects the ServiceMonitors" in told) is not selected
    assert ("monitoring/k8s wants" in told) is not selected


def test_a_namespace_is_known_by_its_name(small: Release) -> None:
    """By a label that a server of 1.21 gives it: where helm makes it, too, it is not there yet."""
    by_name = {"matchLabels": {"kubernetes.io/metadata.name": small.namespace}}
    assert "WARNING" not in _beside(small, "serviceMonitor", {}, by_name)


def test_helm_warns_where_exporters_are_not_looked_for(small: Release) -> None:
    warning = "WARNING: exporters are looked for in cluster.namespaces alone (ml)"
    few = ("agent.enabled=false,rbac.create=false,server.persistence.size=40Gi", "cluster.namespaces={ml}")
    assert warning in small.install(*few)
    assert warning in small.install(*few, values=ALONE)
    for enough in ("cluster.exporterNamespaces={gpu}", "cluster.exporters=false", "config.source.url=u"):
        assert warning not in small.install(*few, enough)


def test_helm_warns_where_tokens_would_travel_in_the_clear(small: Release) -> None:
    few = "agent.enabled=false,rbac.create=false,server.ingress.enabled=true,server.ingress.host=t.example"
    warning = "WARNING: that is http: tokens, logins and all that is shown go to the ingress in the clear"
    assert warning in small.install(few, values=BESIDE)
    https = ("server.ingress.tlsSecret=s", "server.tls.secretName=s", "config.server.external_url=https://t/")
    for known in https:
        assert warning not in small.install(few, known, values=BESIDE)


def test_helm_warns_where_the_ingress_is_not_known(small: Release) -> None:
    few = "agent.enabled=false,rbac.create=false,server.ingress.enabled=true,server.ingress.host=t.example"
    warning = "WARNING: the server does not know which address is the ingress's"
    assert warning in small.install(few, values=BESIDE)
    for known in ("server.ingress.from={10.1.0.7}", "config.access.proxy.trusted={10.2.0.0/16}"):
        assert warning not in small.install(few, known, values=BESIDE)


def test_helm_tells_how_a_certificate_is_checked(small: Release) -> None:
    few = "agent.enabled=false,rbac.create=false,server.ingress.enabled=true,server.ingress.host=t.example"
    told = small.install(few, "server.tls.secretName=cert", values=BESIDE)
    assert "Where 127.0.0.1 is not in it, ask by a name that is" in told
    assert "People reach it at https://t.example/." in told
    told = small.install(few, "config.server.external_url=https://gpus.example/", values=BESIDE)
    assert "SSL_CERT_FILE" not in told
    assert "People reach it at https://gpus.example/." in told


def test_helm_warns_when_prometheus_may_not_reach_agents(release: Release) -> None:
    both = "networkPolicy.enabled=true,serviceMonitor.enabled=true,serviceMonitor.check=false"
    assert "keeps the Prometheus of serviceMonitor away" in release.install(both)
    assert "WARNING" not in release.install(both, "networkPolicy.agentFrom[0].podSelector.matchLabels.a=b")


def test_helm_warns_where_nobody_has_the_images(small: Release) -> None:
    few = "agent.enabled=false,rbac.create=false,serviceMonitor.enabled=false"
    told = small.install(few, "image.registry=", values=BESIDE)
    assert "WARNING: image.registry is empty" in told


def test_helm_warns_when_nothing_selects_the_rules(small: Release) -> None:
    warning = "WARNING: no Prometheus of this cluster selects the PrometheusRules"
    assert warning in _beside(small, "rule", {"matchLabels": {"release": "other"}}, {})
    assert warning not in _beside(small, "rule", LABELLED, {})


def test_the_check_can_be_turned_off(small: Release) -> None:
    assert "WARNING" not in _beside(small, "serviceMonitor", None, None, "serviceMonitor.check=false")
    assert "WARNING" not in _beside(small, "rule", None, None, "prometheusRule.check=false")


def test_helm_says_so_when_it_cannot_know(release: Release) -> None:
    told = release.install("agent.enabled=false,prometheusRule.enabled=false", values=BESIDE)
    assert "No Prometheus object was seen" in told
    assert "WARNING" not in told


def test_reading_reads_all_that_is_watched_and_fixes_nothing(release: Release) -> None:
    release.install()
    assert [one for one in _printed(release) if not _may(release, *one)] == []
    assert [one for one in _printed(release, "--why") if not _may(release, *one)] == []
    assert [one for one in _printed(release, "--fix") if _may(release, *one)] == []
    assert not _may(release, "", "secrets", "get")
    assert not _may(release, "coordination.k8s.io", "leases", "update")


def test_fixing_is_added_and_taken_away(release: Release) -> None:
    release.install("rbac.fix=true")
    assert [one for one in _printed(release, "--fix") if not _may(release, *one)] == []
    release.install("rbac.fix=false")
    assert [one for one in _printed(release, "--fix") if _may(release, *one)] == []


def test_an_agent_may_do_nothing(release: Release) -> None:
    release.install("rbac.fix=true")
    account = f"{RELEASE}-agent"
    assert [one for one in _printed(release) if _may(release, *one, account=account)] == []


def test_one_of_several_may_hold_the_lease(release: Release) -> None:
    release.install("server.podDisruptionBudget.enabled=false", values=LARGE)
    home, leases = release.namespace, ("coordination.k8s.io", "leases")
    for verb, name in (("get", RELEASE), ("update", RELEASE), ("create", "")):
        assert _may(release, *leases, verb, namespace=home, name=name)
        assert not _may(release, *leases, verb, namespace="ml", name=name)
    assert not _may(release, *leases, "update", namespace=home, name="another")


def _is_there(release: Release, objects: tuple[Json, ...]) -> None:
    for wanted in objects:
        resource, name = KINDS[wanted["kind"]], wanted["metadata"]["name"]
        kept = release.server.client().get(resource, name, release.namespace if resource.namespaced else "")
        assert kept["metadata"]["labels"].items() >= wanted["metadata"]["labels"].items()


def _beside(
    release: Release, kind: str, selector: Json | None, namespaces: Json | None, *settings: str
) -> str:
    """What helm tells beside a Prometheus that selects monitors or rules so."""
    admin, home = release.server.client(), "monitoring"
    spec = {f"{kind}Selector": selector, f"{kind}NamespaceSelector": namespaces}
    spec = {key: value for key, value in spec.items() if value is not None}
    admin.create(PROMETHEUSES, {"metadata": {"name": "k8s"}, "spec": spec}, home)
    other = "prometheusRule" if kind == "serviceMonitor" else "serviceMonitor"
    few = f"agent.enabled=false,rbac.create=false,{other}.enabled=false"
    try:
        return release.install(few, *settings, values=BESIDE)
    finally:
        admin.delete(PROMETHEUSES, "k8s", home)


def _printed(release: Release, *flags: str) -> list[tuple[str, str, str]]:
    """What `trilens kubernetes rbac` would grant: group, resource, verb."""
    account = f"{release.namespace}/{RELEASE}"
    printed = trilens_here("kubernetes", "rbac", *flags, "--service-account", account).stdout
    role = next(yaml.safe_load_all(printed))
    return [
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def _may(
    release: Release,
    group: str,
    resource: str,
    verb: str,
    *,
    account: str = RELEASE,
    namespace: str = "default",
    name: str = "",
) -> bool:
    """By the server's own authorizer."""
    kind, _, part = resource.partition("/")
    wish = {"group": group, "resource": kind, "subresource": part, "verb": verb}
    wish |= {"namespace": namespace, "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{release.namespace}:{account}",
            "resourceAttributes": wish,
        },
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    allowed: bool = release.server.client().request("POST", path, review)["status"]["allowed"]
    return allowed
