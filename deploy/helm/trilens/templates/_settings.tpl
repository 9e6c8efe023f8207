{{/* trilens.yaml of the server and of the agents: what the chart knows, and over it what the values say. */}}

{{- define "trilens.serverSettings" -}}
{{- $server := dict "listen" "0.0.0.0:9333" "token_file" "/etc/trilens/secret/server-token" "log_format" "json" }}
{{- with .Values.server.tls.secretName }}
{{- $_ := set $server "tls_cert_file" "/etc/trilens/tls/tls.crt" }}
{{- $_ := set $server "tls_key_file" "/etc/trilens/tls/tls.key" }}
{{- end }}
{{- with .Values.server.ingress }}
{{- if .enabled }}
{{- $scheme := ternary "https" (include "trilens.scheme" $) (not (empty .tlsSecret)) }}
{{- $_ := set $server "external_url" (printf "%s://%s" $scheme .host) }}
{{- end }}
{{- end }}
{{- $cluster := dict "in_cluster" true }}
{{- with .Values.cluster }}
{{- if .namespaces }}{{ $_ := set $cluster "namespaces" .namespaces }}{{ end }}
{{- if kindIs "bool" .exporters }}{{ $_ := set $cluster "exporters" .exporters }}{{ end }}
{{- if .exporterNamespaces }}{{ $_ := set $cluster "exporter_namespaces" .exporterNamespaces }}{{ end }}
{{- if .annotations }}{{ $_ := set $cluster "annotations" true }}{{ end }}
{{- if ne .monitors "off" }}{{ $_ := set $cluster "monitors" .monitors }}{{ end }}
{{- end }}
{{- $own := dict
      "server" $server
      "storage" (dict "data_dir" "/var/lib/trilens")
      "kubernetes" (dict "clusters" (dict .Values.cluster.name $cluster)) }}
{{- if or .Values.agent.enabled ((.Values.config).agents).scrape_config }}
{{- $_ := set $own "agents" (dict "scrape_config" (include "trilens.agentScrape" . | fromYaml)) }}
{{- end }}
{{- $access := dict }}
{{- if include "trilens.hasReader" . }}{{ $_ := set $access "tokens_file" "/etc/trilens/secret/tokens.yaml" }}{{ end }}
{{- with .Values.server.ingress }}
{{- /* A proxy of yours is another than this one, which does not know who asks. */}}
{{- if and .enabled .from (not (($.Values.config).access).proxy) }}
{{- $_ := set $access "proxy" (dict "trusted" .from "user_header" nil) }}
{{- end }}
{{- end }}
{{- if $access }}{{ $_ := set $own "access" $access }}{{ end }}
{{- if gt (int .Values.server.replicas) 1 }}
{{- $_ := set $own "replicas" (dict "lease" (printf "%s/%s" .Release.Namespace (include "trilens.fullname" .))) }}
{{- end }}
{{- /* A section without anything in it (`storage:`) says nothing of what the chart sets there. */}}
{{- range $section, $given := .Values.config }}
{{- if $given }}{{ $_ := mergeOverwrite $own (dict $section (deepCopy $given)) }}{{ end }}
{{- end }}
{{- toYaml $own }}
{{- end }}

{{/* Agents are pods of this namespace. A mesh may add containers to them, so the port is chosen by its name. Targets that
     config.agents.scrape_config adds are no pods, have the same token, and say themselves which node and cluster they are of. */}}
{{- define "trilens.agentScrape" -}}
authorization: {credentials_file: /etc/trilens/secret/agent-token}
{{- if .Values.agent.enabled }}
{{- with .Values.agent.tls }}
{{- if .secretName }}
scheme: https
tls_config:
  server_name: {{ include "trilens.agentTlsName" $ }}
  {{- if .caKey }}
  ca_file: /etc/trilens/agent-ca/ca.crt
  {{- end }}
{{- end }}
{{- end }}
kubernetes_sd_configs:
  - role: pod
    namespaces: {own_namespace: true}
    selectors:
      - role: pod
        label: app.kubernetes.io/instance={{ .Release.Name }},app.kubernetes.io/component=agent
relabel_configs:
  - {source_labels: [__meta_kubernetes_pod_name, __meta_kubernetes_pod_container_port_name], regex: ;|.+;agent, action: keep}
  - {source_labels: [__meta_kubernetes_pod_node_name], regex: (.+), target_label: node}
  - {source_labels: [__meta_kubernetes_pod_name], regex: (.+), target_label: cluster, replacement: {{ .Values.cluster.name | quote }}}
{{- end }}
{{- end }}

{{- define "trilens.agentSettings" -}}
{{- $needs := .Values.agent.needs }}
{{- /* Whether a dcgm-exporter runs is seen among the node's processes: unseen, both would tell of each GPU. */}}
{{- $reads := and $needs.gpuDevices.enabled $needs.processes.enabled }}
{{- $agent := dict
      "listen" "0.0.0.0:9334"
      "token_file" "/etc/trilens/secret/agent-token"
      "log_format" "json"
      "state_file" "/var/lib/trilens-agent/state.json"
      "kernel_log" (ternary $needs.kernelLog.from "off" $needs.kernelLog.enabled)
      "gpu_metrics" (ternary "auto" "off" $reads) }}
{{- if .Values.agent.tls.secretName }}
{{- $_ := set $agent "tls_cert_file" "/etc/trilens/tls/tls.crt" }}
{{- $_ := set $agent "tls_key_file" "/etc/trilens/tls/tls.key" }}
{{- end }}
{{- if not $needs.podLogs.enabled }}{{ $_ := set $agent "output_lines" 0 }}{{ end }}
{{- toYaml (dict "agent" (mergeOverwrite $agent (deepCopy (.Values.agent.config | default dict)))) }}
{{- end }}
