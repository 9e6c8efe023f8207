"""Settings of several servers, and of a cluster of ClickHouse servers."""

from __future__ import annotations

from typing import Any

import pytest

from trilens.model.errors import ConfigError
from trilens.settings.load import validate

URL = {"url": "http://clickhouse:8123/trilens"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"replicas": {"lease": "monitoring/trilens"}}, "each server would have its own data"),
        ({"storage": {"cluster": "gpus"}}, "name one of the cluster's servers"),
        ({"storage": {**URL, "cluster": "gpus; DROP"}}, "storage.cluster"),
        ({"storage": {**URL, "cluster": "gpus", "insert_quorum": "most"}}, "storage.insert_quorum"),
        ({"storage": URL, "replicas": {"lease": "trilens"}}, "replicas.lease"),
        ({"storage": URL, "replicas": {"lease": "a/b", "lease_duration": "2s"}}, "below 3 s"),
        ({"storage": URL, "replicas": {"lease": "a/b", "lease_duration": "3500ms"}}, "whole seconds"),
        ({"storage": URL, "replicas": {"lease": "a/b", "address": "10.0.0.7:9333"}}, "replicas.address"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        validate(settings)


def test_a_quorum_may_be_a_number() -> None:
    assert validate({"storage": {**URL, "insert_quorum": 2}}).storage.insert_quorum == "2"
