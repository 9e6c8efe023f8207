"""Which pod has which address: an address that others have, too, says nothing of a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kube_objects import to_object
from trilens.model.workload import PodKey
from trilens.resolve.pod_addresses import pods_by_address

if TYPE_CHECKING:
    from trilens.model.kubernetes import KubeObject


def pod(name: str, ip: str, *, cluster: str = "lab", phase: str = "Running", **spec: Any) -> KubeObject:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"{cluster}-{name}"},
        "spec": spec,
        "status": {"phase": phase, "podIP": ip} if ip else {},
    }
    return to_object(manifest, cluster)


def test_two_clusters_may_give_out_one_address() -> None:
    found = pods_by_address(
        [pod("a", "10.0.0.1"), pod("b", "10.0.0.1", cluster="prod"), pod("c", "10.0.0.2")]
    )
    assert found == {
        "10.0.0.1": [PodKey("lab", "ml", "a", "lab-a"), PodKey("prod", "ml", "b", "prod-b")],
        "10.0.0.2": [PodKey("lab", "ml", "c", "lab-c")],
    }


def test_what_is_no_address_of_the_pod_alone_is_left_out() -> None:
    assert not pods_by_address(
        [
            pod("on-its-host", "192.168.0.7", hostNetwork=True),
            pod("over", "10.0.0.3", phase="Succeeded"),
            pod("pending", ""),
        ]
    )
