"""The kinds that operators bring, and what is kept of them: how large a job is, and how it fares."""

from __future__ import annotations

from functools import partial
from typing import Final

from trilens.collect.kubernetes.watched_kind import WatchedKind, watched
from trilens.collect.kubernetes.workflow import unpack_nodes

_operator = partial(watched, by_operator=True)

_LARGE: Final = 100  # objects a request, of kinds that may have a megabyte each

_JOB_SET: Final = """
spec {
    suspend managedBy failurePolicy successPolicy
    replicatedJobs * { name replicas groupName template { spec {
        parallelism completions completionMode backoffLimit ...template
    } } }
}
status { restarts restartsCountTowardsMax terminalState replicatedJobsStatus ...conditions }"""

_TRAIN_JOB: Final = """
spec {
    suspend managedBy runtimeRef trainer { image numNodes numProcPerNode resourcesPerNode }
}
status { jobsStatus ...conditions }"""

_RAY_GROUPS: Final = """
    suspend enableInTreeAutoscaling rayVersion headGroupSpec { ...template }
    workerGroupSpecs * { groupName replicas minReplicas maxReplicas numOfHosts suspend ...template }"""

_RAY_CLUSTER: Final = (
    "spec {"
    + _RAY_GROUPS
    + """}
status {
    state reason desiredWorkerReplicas availableWorkerReplicas readyWorkerReplicas minWorkerReplicas
    maxWorkerReplicas desiredGPU stateTransitionTimes ...conditions
}"""
)

_RAY_JOB: Final = (
    """
spec {
    suspend shutdownAfterJobFinishes submissionMode backoffLimit activeDeadlineSeconds clusterSelector
    rayClusterSpec {"""
    + _RAY_GROUPS
    + """} }
status {
    jobId rayClusterName jobStatus jobDeploymentStatus reason message startTime endTime failed succeeded
}"""
)

_RAY_SERVICE: Final = (
    "spec { rayClusterConfig {"
    + _RAY_GROUPS
    + """} }
status {
    serviceStatus numServeEndpoints activeServiceStatus { rayClusterName }
    pendingServiceStatus { rayClusterName } ...conditions
}"""
)

_LEADER_WORKER_SET: Final = """
spec {
    replicas startupPolicy networkConfig
    leaderWorkerTemplate {
        size restartPolicy subGroupPolicy
        leaderTemplate { spec { containers * { ...container } } }
        workerTemplate { spec { containers * { ...container } } }
    }
}
status { replicas readyReplicas updatedReplicas ...conditions }"""

# The frameworks by name are how it was written before `model` with its modelFormat, and still served.
_KSERVE_COMPONENT: Final = """ {
        minReplicas maxReplicas model { modelFormat runtime resources } containers * { ...container }
        workerSpec { pipelineParallelSize tensorParallelSize containers * { ...container } }
        sklearn { resources } xgboost { resources } tensorflow { resources } pytorch { resources }
        triton { resources } onnx { resources } huggingface { resources } pmml { resources }
        lightgbm { resources } paddle { resources }
    }"""

_INFERENCE_SERVICE: Final = (
    "spec { predictor"
    + _KSERVE_COMPONENT
    + " transformer"
    + _KSERVE_COMPONENT
    + " explainer"
    + _KSERVE_COMPONENT
    + "} status { url modelStatus deploymentMode ...conditions }"
)

_LLM_INFERENCE_SERVICE: Final = """
spec {
    model { name } replicas parallelism scaling
    template { containers * { ...container } } worker { containers * { ...container } }
    prefill {
        replicas parallelism scaling
        template { containers * { ...container } } worker { containers * { ...container } }
    }
}
status { url ...conditions }"""

_NOTEBOOK: Final = "spec { ...template } status { readyReplicas containerState ...conditions }"

# Of those that only stand between a pod and its workload, or say nothing but whether they are well.
_CONDITIONS: Final = "status { ...conditions }"

_VOLCANO_JOB: Final = """
spec {
    minAvailable queue schedulerName maxRetry priorityClassName
    tasks * { name replicas minAvailable maxRetry ...template }
}
status {
    state pending running succeeded failed terminating unknown minAvailable retryCount version
    runningDuration conditions * { status lastTransitionTime }
}"""

_POD_GROUP: Final = """
spec { minMember minTaskMember queue priorityClassName minResources }
status { phase running succeeded failed ...conditions }"""

_WORKFLOW: Final = """
spec { suspend entrypoint priority schedulerName }
status {
    phase startedAt finishedAt progress message estimatedDuration conditions * { type status message }
    compressedNodes nodes * { ...step }
}"""

_WORKLOAD: Final = """
spec {
    queueName priority priorityClassName active podSets * { name count minCount ...template }
}
status {
    admission requeueState reclaimablePods
    admissionChecks * { name state message lastTransitionTime } ...conditions
}"""

_QUEUE_STATUS: Final = """status {
    pendingWorkloads reservingWorkloads admittedWorkloads flavorsReservation flavorsUsage ...conditions
}"""
_CLUSTER_QUEUE: Final = (
    "spec { cohort cohortName queueingStrategy resourceGroups stopPolicy preemption namespaceSelector }"
    + _QUEUE_STATUS
)
_LOCAL_QUEUE: Final = "spec { clusterQueue stopPolicy }" + _QUEUE_STATUS

_PROMETHEUS: Final = """
spec {
    serviceMonitorSelector serviceMonitorNamespaceSelector podMonitorSelector podMonitorNamespaceSelector
    replicas shards scrapeInterval externalLabels paused
}"""


def _training_job(kind: str, replicas: str) -> WatchedKind:
    """One of the Training Operator's, which differ in what they call their replicas."""
    mask = (
        f"spec {{ {replicas} *"
        + """{ replicas restartPolicy ...template }
            runPolicy nprocPerNode elasticPolicy { minReplicas maxReplicas nProcPerNode }
            slotsPerWorker runLauncherAsWorker mpiImplementation launcherCreationPolicy
        }
        status { startTime completionTime replicaStatuses * { active succeeded failed } ...conditions }"""
    )
    return _operator("kubeflow.org", kind, f"{kind.lower()}s", mask)


OPERATORS: Final = (
    _operator("jobset.x-k8s.io", "JobSet", "jobsets", _JOB_SET),
    _operator("trainer.kubeflow.org", "TrainJob", "trainjobs", _TRAIN_JOB),
    _training_job("PyTorchJob", "pytorchReplicaSpecs"),
    _training_job("TFJob", "tfReplicaSpecs"),
    _training_job("JAXJob", "jaxReplicaSpecs"),
    _training_job("XGBoostJob", "xgbReplicaSpecs"),
    _training_job("PaddleJob", "paddleReplicaSpecs"),
    _training_job("MXJob", "mxReplicaSpecs"),
    _training_job("MPIJob", "mpiReplicaSpecs"),
    _operator("kubeflow.org", "Notebook", "notebooks", _NOTEBOOK),
    _operator("ray.io", "RayCluster", "rayclusters", _RAY_CLUSTER),
    _operator("ray.io", "RayJob", "rayjobs", _RAY_JOB),
    _operator("ray.io", "RayService", "rayservices", _RAY_SERVICE),
    _operator("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "leaderworkersets", _LEADER_WORKER_SET),
    _operator("serving.kserve.io", "InferenceService", "inferenceservices", _INFERENCE_SERVICE),
    _operator("serving.kserve.io", "LLMInferenceService", "llminferenceservices", _LLM_INFERENCE_SERVICE),
    _operator("serving.kserve.io", "InferenceGraph", "inferencegraphs", _CONDITIONS),
    _operator("serving.knative.dev", "Service", "services", _CONDITIONS),
    _operator("serving.knative.dev", "Configuration", "configurations", _CONDITIONS),
    _operator("serving.knative.dev", "Revision", "revisions", _CONDITIONS),
    _operator("batch.volcano.sh", "Job", "jobs", _VOLCANO_JOB),
    _operator("scheduling.volcano.sh", "PodGroup", "podgroups", _POD_GROUP),
    _operator("argoproj.io", "Workflow", "workflows", _WORKFLOW, page=_LARGE, refine=unpack_nodes),
    _operator("kueue.x-k8s.io", "Workload", "workloads", _WORKLOAD, page=_LARGE),
    _operator("kueue.x-k8s.io", "ClusterQueue", "clusterqueues", _CLUSTER_QUEUE, namespaced=False),
    _operator("kueue.x-k8s.io", "LocalQueue", "localqueues", _LOCAL_QUEUE),
    _operator("monitoring.coreos.com", "ServiceMonitor", "servicemonitors", "spec"),
    _operator("monitoring.coreos.com", "PodMonitor", "podmonitors", "spec"),
    _operator("monitoring.coreos.com", "Prometheus", "prometheuses", _PROMETHEUS),
)
