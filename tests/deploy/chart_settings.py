"""Settings of the chart that more than one test renders."""

from __future__ import annotations

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
