"""Settings of the chart that more than one test renders."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from chart import CASES, template

if TYPE_CHECKING:
    from collections.abc import Callable

    from chart import Json

EVERYTHING = (
    "rbac.fix=true",
    "server.ingress.enabled=true,server.ingress.host=t.example,server.ingress.className=c",
    "serviceMonitor.enabled=true,serviceMonitor.interval=30s,serviceMonitor.kubernetesMetrics=true",
    "serviceMonitor.tlsConfig.insecureSkipVerify=true,server.tls.secretName=cert",
    "networkPolicy.enabled=true,networkPolicy.serverFrom[0].podSelector.matchLabels.a=b",
    "serviceMonitor.token.secretName=reader,keda.token.caKey=ca.crt",
    "agent.podSecurityContext.seLinuxOptions.type=spc_t",
    "keda.enabled=true,keda.services[0].name=chat",
    "keda.services[0].engine=vllm,cluster.monitors=selected",
    "agent.needs.kernelLog.from=/var/log/kern.log,agent.needs.gpuDevices.runtimeClassName=nvidia",
    "agent.tls.secretName=agents",
)
AGENTS_ALONE = (
    "server.enabled=false,secret.existingSecret=tokens,agent.hostPort=9334",
    "cluster.name=west,serviceMonitor.enabled=true,networkPolicy.enabled=true",
    "networkPolicy.agentFrom[0].ipBlock.cidr=10.0.0.0/8",
)
SEVERAL = (
    "server.replicas=2,config.storage.url=u,serviceMonitor.enabled=true",
    "networkPolicy.enabled=true,networkPolicy.serverFrom[0].podSelector.matchLabels.a=b",
    "server.tls.secretName=cert",
)
RENDERINGS: dict[str, Callable[[], tuple[Json, ...]]] = {
    **{file.stem: partial(template, values=file) for file in CASES},
    "everything": partial(
        template, *EVERYTHING, "keda.services[0].namespace=ml", "prometheusRule.enabled=true"
    ),
    "agents alone": partial(template, *AGENTS_ALONE),
    "several": partial(template, *SEVERAL),
}
