"""Which settings differ, by the names that people wrote."""

from __future__ import annotations

from trilens.settings.differences import differing
from trilens.settings.load import validate

LAB = {"kubeconfig": "a", "namespaces": ["train"]}


def test_each_difference_is_named() -> None:
    one = validate({"kubernetes": {"clusters": {"lab": LAB, "old": {"in_cluster": True}}}})
    other = validate(
        {
            "kubernetes": {"clusters": {"lab": {**LAB, "namespaces": []}, "new": {"in_cluster": True}}},
            "ownership": {"team": ["label:team"]},
            "topology": {"rack": ["x/rack"]},
            "scrape": {"scrape_configs": [{"job_name": "a"}]},
        }
    )
    found = differing(one, other, besides=("scrape",))
    assert found == [
        "kubernetes.clusters.lab.namespaces",
        "kubernetes.clusters.new",
        "kubernetes.clusters.old",
        "ownership.team",
        "topology.rack",
    ]


def test_secrets_are_compared() -> None:
    one, other = (validate({"server": {"token": token}}) for token in ("a", "b"))
    assert differing(one, other) == ["server.token"]
    assert differing(one, one) == []
