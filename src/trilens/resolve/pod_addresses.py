"""Which pod has which address, as far as an address is a pod's alone."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trilens.model.workload import PodKey
from trilens.resolve.reading import section, text
from trilens.resolve.stages import is_over

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.model.kubernetes import KubeObject


def pods_by_address(pods: Iterable[KubeObject]) -> Mapping[str, Sequence[PodKey]]:
    """Clusters may give out the same ones. A pod in its host's network has its machine's, with all else that
    listens there; one that is over has none any more."""
    found: defaultdict[str, list[PodKey]] = defaultdict(list)
    for pod in pods:
        address = text(section(pod.body, "status"), "podIP")
        if address and not is_over(pod) and section(pod.body, "spec").get("hostNetwork") is not True:
            found[address].append(PodKey(pod.cluster, pod.namespace, pod.name, pod.uid))
    return dict(found)
