{{/* A role, and its binding to the server's account. Names of a ClusterRole carry the namespace, as releases of two may share one. */}}
{{- define "trilens.role" }}
{{- $name := printf "%s%s" (include "trilens.fullname" .root) .suffix }}
{{- if eq .kind "ClusterRole" }}{{ $name = printf "%s-%s" .root.Release.Namespace $name }}{{ end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "trilens.labels" (list .root "server") | nindent 4 }}
rules: {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "trilens.labels" (list .root "server") | nindent 4 }}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: {{ .kind }}, name: {{ $name }}}
subjects:
  - {kind: ServiceAccount, name: {{ include "trilens.serverAccount" .root }}, namespace: {{ .root.Release.Namespace }}}
{{- end }}
