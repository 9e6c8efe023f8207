{{/* The token that may only read: the server knows it by its hash (access.tokens_file), unless it reads a file of yours instead, or
     the Secret is yours. "true" or "". */}}
{{- define "trilens.hasReader" -}}
{{- $access := (.Values.config | default dict).access | default dict }}
{{- if not (or .Values.secret.existingSecret (hasKey $access "tokens_file")) }}true{{ end }}
{{- end }}

{{/* An entry of access.tokens_file for a token as it is presented, trl_ID_SECRET. */}}
{{- define "trilens.declaredReader" -}}
tokens:
  - id: metrics
    name: metrics for Prometheus, by the chart
    sha256: {{ trimPrefix "trl_metrics_" . | sha256sum }}
    rights: [read]
{{ end }}
