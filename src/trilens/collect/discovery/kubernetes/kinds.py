"""What is kept of objects to make targets of them: other parts than the workloads need, and often less."""

from __future__ import annotations

from typing import Final

from trilens.collect.kubernetes.watched_kind import watched

_CONTAINER: Final = "{ name image ports * { name containerPort protocol } }"

POD: Final = watched(
    "",
    "Pod",
    "pods",
    f"""
    spec {{ nodeName containers * {_CONTAINER} initContainers * {_CONTAINER} }}
    status {{
        podIP hostIP phase conditions * {{ type status }}
        containerStatuses * {{ name containerID }} initContainerStatuses * {{ name containerID }}
    }}""",
    version="v1",
)
NODE: Final = watched(
    "",
    "Node",
    "nodes",
    "spec { providerID } status { addresses * { type address } daemonEndpoints }",
    version="v1",
    namespaced=False,
)
SERVICE: Final = watched(
    "",
    "Service",
    "services",
    "spec { type clusterIP externalName loadBalancerIP ports * { name port protocol } }",
    version="v1",
)
ENDPOINTS: Final = watched("", "Endpoints", "endpoints", "subsets", version="v1")
# v1 since Kubernetes 1.21, v1beta1 until 1.25: the cluster is asked which it has.
ENDPOINT_SLICE: Final = watched(
    "discovery.k8s.io", "EndpointSlice", "endpointslices", "addressType endpoints ports"
)
