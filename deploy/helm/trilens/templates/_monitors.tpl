{{/* What the endpoints of a monitor have alike. */}}
{{- define "trilens.endpoint" -}}
{{- $monitor := .root.Values.serviceMonitor -}}
port: {{ .port }}
{{- with $monitor.interval }}
interval: {{ . }}
{{- end }}
{{- if eq .port "http" }}
scheme: {{ include "trilens.scheme" .root }}
{{- with include "trilens.serverTls" .root | fromYaml }}
tlsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- else }}
scheme: {{ include "trilens.agentScheme" .root }}
{{- $root := .root }}
{{- with .root.Values.agent.tls }}
{{- if .secretName }}
tlsConfig:
  serverName: {{ include "trilens.agentTlsName" $root }}
  {{- if .caKey }}
  ca: {secret: {name: {{ .secretName }}, key: {{ .caKey }}}}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}
authorization:
  credentials:
    {{- if and (eq .port "http") $monitor.token.secretName }}
    name: {{ $monitor.token.secretName }}
    key: {{ $monitor.token.key }}
    {{- else }}
    name: {{ include "trilens.secretName" .root }}
    {{- if ne .port "http" }}
    key: {{ .root.Values.secret.agentTokenKey }}
    {{- else }}
    key: {{ ternary "reader-token" .root.Values.secret.serverTokenKey (include "trilens.hasReader" .root | eq "true") }}
    {{- end }}
    {{- end }}
{{- end }}

{{/* How a Prometheus checks the server's certificate: it asks pods by their addresses, which no certificate has. What is said of an
     authority takes the place of the Secret's, since two are refused. */}}
{{- define "trilens.serverTls" -}}
{{- $given := .Values.serviceMonitor.tlsConfig | default dict }}
{{- $how := dict }}
{{- with .Values.server.tls }}
{{- if .secretName }}
{{- $_ := set $how "serverName" (printf "%s.%s.svc" (include "trilens.fullname" $) $.Release.Namespace) }}
{{- if and .caKey (not (or $given.ca $given.caFile $given.insecureSkipVerify)) }}
{{- $_ := set $how "ca" (dict "secret" (dict "name" .secretName "key" .caKey)) }}
{{- end }}
{{- end }}
{{- end }}
{{- if or $how $given }}
{{- toYaml (mergeOverwrite $how (deepCopy $given)) }}
{{- end }}
{{- end }}

{{/* What is told of others has their labels or none: a GPU that no pod holds must not seem to be held by the one that tells it. */}}
{{- define "trilens.ofOthers" -}}
- {action: labeldrop, regex: container|endpoint|namespace|pod|service}
{{- end }}

{{/* Whether labels fit a selector, "true" or "": (dict "labels" LABELS "selector" SELECTOR). */}}
{{- define "trilens.fits" -}}
{{- $labels := .labels }}
{{- $fits := true }}
{{- range $key, $value := .selector.matchLabels | default dict }}
{{- if ne (get $labels $key | toString) ($value | toString) }}{{ $fits = false }}{{ end }}
{{- end }}
{{- range .selector.matchExpressions | default list }}
{{- $has := hasKey $labels .key }}
{{- $listed := has (get $labels .key) (.values | default list) }}
{{- if or (and (eq .operator "In") (not (and $has $listed))) (and (eq .operator "NotIn") $has $listed) (and (eq .operator "Exists") (not $has)) (and (eq .operator "DoesNotExist") $has) }}
{{- $fits = false }}
{{- end }}
{{- end }}
{{- if $fits }}true{{ end }}
{{- end }}

{{/* Whether a Prometheus takes objects of a kind from this release, as the operator decides it: no selector takes none, an empty
     one all; no selector of namespaces takes its own. (dict "root" . "prometheus" OBJECT "labels" LABELS "kind" "serviceMonitor") */}}
{{- define "trilens.takes" -}}
{{- $spec := .prometheus.spec }}
{{- $home := .root.Release.Namespace }}
{{- $selector := get $spec (printf "%sSelector" .kind) }}
{{- $namespaces := get $spec (printf "%sNamespaceSelector" .kind) }}
{{- if kindIs "map" $selector }}
{{- if include "trilens.fits" (dict "labels" .labels "selector" $selector) }}
{{- if not (kindIs "map" $namespaces) }}
{{- if eq .prometheus.metadata.namespace $home }}true{{ end }}
{{- else }}
{{- /* With --create-namespace it is not there yet when this is asked. */}}
{{- $labels := merge (dict "kubernetes.io/metadata.name" $home) (dig "metadata" "labels" dict (lookup "v1" "Namespace" "" $home) | default dict) }}
{{- include "trilens.fits" (dict "labels" $labels "selector" $namespaces) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
