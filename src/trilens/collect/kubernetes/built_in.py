"""The kinds that Kubernetes itself has, and what is kept of them."""

from __future__ import annotations

from typing import Final

from trilens.collect.kubernetes.environment import keep_known_variables
from trilens.collect.kubernetes.watched_kind import watched

_CONTAINER: Final = """ {
        ...container ports * { name containerPort hostPort protocol }
        env * { name value valueFrom { fieldRef { fieldPath } } }
    }"""

_CONTAINER_STATUS: Final = """ {
        name image imageID containerID ready started restartCount allocatedResources allocatedResourcesStatus
        state { running { startedAt } waiting { reason message } terminated { ...ended } }
        lastState { terminated { ...ended containerID } }
    }"""

_POD: Final = (
    """
spec {
    nodeName nodeSelector affinity tolerations schedulerName schedulingGates priority priorityClassName
    preemptionPolicy restartPolicy runtimeClassName serviceAccountName hostname subdomain hostNetwork
    terminationGracePeriodSeconds activeDeadlineSeconds topologySpreadConstraints resourceClaims resources
    overhead volumes * { name persistentVolumeClaim { claimName } }
    containers *"""
    + _CONTAINER
    + " initContainers *"
    + _CONTAINER
    + """
}
status {
    phase reason message nominatedNodeName hostIP podIP podIPs startTime qosClass resourceClaimStatuses
    ...conditions containerStatuses *"""
    + _CONTAINER_STATUS
    + " initContainerStatuses *"
    + _CONTAINER_STATUS
    + "}"
)

# Not its images, which are most of it, nor the heartbeats of its conditions.
_NODE: Final = """
spec { unschedulable taints providerID podCIDR }
status { capacity allocatable nodeInfo addresses * { type address } daemonEndpoints ...conditions }"""

_EVENT: Final = """
involvedObject { apiVersion kind namespace name uid fieldPath }
reason message type count firstTimestamp lastTimestamp eventTime source reportingComponent
reportingInstance action series { count lastObservedTime }"""

_JOB: Final = """
spec {
    parallelism completions completionMode backoffLimit backoffLimitPerIndex maxFailedIndexes suspend
    activeDeadlineSeconds managedBy ...template
}
status {
    active ready terminating succeeded failed startTime completionTime completedIndexes failedIndexes
    ...conditions
}"""

_REPLICAS: Final = """
spec { replicas paused serviceName podManagementPolicy ...template }
status {
    replicas readyReplicas availableReplicas unavailableReplicas updatedReplicas currentReplicas
    currentRevision updateRevision ...conditions
}"""

_DAEMON_SET: Final = """
spec { ...template }
status {
    desiredNumberScheduled currentNumberScheduled updatedNumberScheduled numberReady numberAvailable
    numberUnavailable numberMisscheduled ...conditions
}"""

# Its Deployment has the template, and of the old ones there are many.
_REPLICA_SET: Final = "spec { replicas } status { replicas readyReplicas availableReplicas ...conditions }"

_QUOTA: Final = "spec { hard scopes scopeSelector } status { hard used }"

_VOLUME_CLAIM: Final = """
spec { storageClassName volumeName volumeMode accessModes resources }
status { phase capacity ...conditions }"""

_RESOURCE_CLAIM: Final = """
spec { devices resourceClassName allocationMode }
status { allocation reservedFor devices driverName }"""

_SERVICE: Final = "spec { type clusterIP externalName loadBalancerIP selector ports }"

BUILT_IN: Final = (
    watched("", "Pod", "pods", _POD, version="v1", refine=keep_known_variables),
    watched("", "Node", "nodes", _NODE, version="v1", namespaced=False),
    watched("", "Namespace", "namespaces", "status { phase }", version="v1", namespaced=False),
    watched("", "Event", "events", _EVENT, version="v1", remembered=False),
    watched("", "ResourceQuota", "resourcequotas", _QUOTA, version="v1"),
    watched("", "PersistentVolumeClaim", "persistentvolumeclaims", _VOLUME_CLAIM, version="v1"),
    watched("batch", "Job", "jobs", _JOB, version="v1"),
    watched("apps", "ReplicaSet", "replicasets", _REPLICA_SET, version="v1"),
    watched("apps", "StatefulSet", "statefulsets", _REPLICAS, version="v1"),
    watched("apps", "Deployment", "deployments", _REPLICAS, version="v1"),
    watched("apps", "DaemonSet", "daemonsets", _DAEMON_SET, version="v1"),
    watched("resource.k8s.io", "ResourceClaim", "resourceclaims", _RESOURCE_CLAIM),
    watched("", "Service", "services", _SERVICE, version="v1", on_request=True),
    watched("", "Endpoints", "endpoints", "subsets", version="v1", on_request=True),
    watched(
        "discovery.k8s.io",
        "EndpointSlice",
        "endpointslices",
        "addressType endpoints ports",
        on_request=True,
    ),
)
