{{/* Names, labels and images. */}}

{{- define "trilens.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "trilens.fullname" -}}
{{- $name := include "trilens.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "trilens.agentName" -}}
{{ include "trilens.fullname" . }}-agent
{{- end }}

{{/* What objects are found by: (list . "server"). It never changes, as a StatefulSet's selector cannot. */}}
{{- define "trilens.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "trilens.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{/* Of pods: another version of the chart alone is no reason to restart them. */}}
{{- define "trilens.podLabels" -}}
{{ include "trilens.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
{{- end }}

{{- define "trilens.labels" -}}
{{- $root := index . 0 -}}
{{ include "trilens.podLabels" . }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* (list . "server"): the image of the server or of the agent. */}}
{{- define "trilens.image" -}}
{{- $root := index . 0 -}}
{{- $image := $root.Values.image -}}
{{- $own := index $image (index . 1) -}}
{{- with $image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ $own.repository }}{{ if $own.digest }}@{{ $own.digest }}{{ else }}:{{ default $root.Chart.AppVersion $image.tag }}{{ end }}
{{- end }}

{{- define "trilens.serverAccount" -}}
{{- default (ternary (include "trilens.fullname" .) "default" .Values.server.serviceAccount.create) .Values.server.serviceAccount.name }}
{{- end }}

{{- define "trilens.agentAccount" -}}
{{- default (ternary (include "trilens.agentName" .) "default" .Values.agent.serviceAccount.create) .Values.agent.serviceAccount.name }}
{{- end }}

{{- define "trilens.secretName" -}}
{{- default (include "trilens.fullname" .) .Values.secret.existingSecret }}
{{- end }}

{{- define "trilens.agentScheme" -}}
{{ ternary "http" "https" (empty .Values.agent.tls.secretName) }}
{{- end }}

{{/* The name in the certificate of agents: they have one together, and addresses that come and go. */}}
{{- define "trilens.agentTlsName" -}}
{{- default (printf "%s.%s.svc" (include "trilens.agentName" .) .Release.Namespace) .Values.agent.tls.serverName }}
{{- end }}

{{- define "trilens.scheme" -}}
{{ ternary "http" "https" (empty .Values.server.tls.secretName) }}
{{- end }}
