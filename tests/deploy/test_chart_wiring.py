"""What points at pods, Services and ports points at those that the chart makes, and at no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from chart import of_kind, one_of
from chart_settings import RENDERINGS

if TYPE_CHECKING:
    from chart import Json

    Objects = tuple[Json, ...]

_POINTERS = ("Service", "PodDisruptionBudget", "NetworkPolicy", "ServiceMonitor", "Ingress")


def _templates(objects: Objects) -> list[Json]:
    """Of pods."""
    return [
        one["spec"]["template"] for kind in ("StatefulSet", "DaemonSet") for one in of_kind(objects, kind)
    ]


def _selected(objects: list[Json], selector: Json) -> list[Json]:
    assert selector, "an empty selector takes all"
    return [one for one in objects if selector.items() <= one["metadata"]["labels"].items()]


def _pod(objects: Objects, selector: Json) -> Json:
    (pod,) = _selected(_templates(objects), selector)
    return pod


def _ports(pod: Json) -> set[str]:
    return {port["name"] for container in pod["spec"]["containers"] for port in container["ports"]}


@pytest.fixture(params=RENDERINGS)
def objects(request: pytest.FixtureRequest) -> Objects:
    return RENDERINGS[request.param]()


def test_each_of_them_is_rendered() -> None:
    rendered = {one["kind"] for render in RENDERINGS.values() for one in render()}
    assert rendered.issuperset(_POINTERS)


def test_what_makes_pods_knows_them_as_its_own(objects: Objects) -> None:
    for kind in ("StatefulSet", "DaemonSet"):
        for made in of_kind(objects, kind):
            assert _pod(objects, made["spec"]["selector"]["matchLabels"]) is made["spec"]["template"]


def test_a_service_leads_to_a_port_of_one_kind_of_pods(objects: Objects) -> None:
    for service in of_kind(objects, "Service"):
        pod = _pod(objects, service["spec"]["selector"])
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= _ports(pod)


def test_pods_of_the_server_have_names_by_a_service_of_theirs(objects: Objects) -> None:
    for made in of_kind(objects, "StatefulSet"):
        names = one_of(objects, "Service", made["spec"]["serviceName"])["spec"]
        assert names["clusterIP"] == "None"
        assert _pod(objects, names["selector"]) is made["spec"]["template"]


def test_a_monitor_finds_one_service_and_its_port(objects: Objects) -> None:
    for monitor in of_kind(objects, "ServiceMonitor"):
        (service,) = _selected(of_kind(objects, "Service"), monitor["spec"]["selector"]["matchLabels"])
        assert service["metadata"]["name"] == monitor["metadata"]["name"]
        ports = {port["name"] for port in service["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= ports


def test_a_disruption_budget_is_of_the_server(objects: Objects) -> None:
    for budget in of_kind(objects, "PodDisruptionBudget"):
        (server,) = of_kind(objects, "StatefulSet")
        assert _pod(objects, budget["spec"]["selector"]["matchLabels"]) is server["spec"]["template"]


def test_a_network_policy_opens_a_port_of_the_pods_that_it_closes(objects: Objects) -> None:
    for policy in of_kind(objects, "NetworkPolicy"):
        pod = _pod(objects, policy["spec"]["podSelector"]["matchLabels"])
        opened = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
        assert opened == _ports(pod)


def test_agents_are_reached_by_the_server_and_servers_by_each_other(objects: Objects) -> None:
    for server in of_kind(objects, "StatefulSet"):
        for policy in of_kind(objects, "NetworkPolicy"):
            (rule,) = policy["spec"]["ingress"]
            of_agents = policy["metadata"]["name"].endswith("-agent")
            if of_agents or ("from" in rule and server["spec"]["replicas"] > 1):
                first = rule["from"][0]["podSelector"]["matchLabels"]
                assert _pod(objects, first) is server["spec"]["template"]


def test_the_ingress_leads_to_a_service_and_its_port(objects: Objects) -> None:
    for ingress in of_kind(objects, "Ingress"):
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                service = one_of(objects, "Service", backend["name"])
                assert backend["port"]["name"] in {port["name"] for port in service["spec"]["ports"]}
