{{/* What pods of the server and of the agents have alike. */}}

{{- define "trilens.placing" -}}
{{- range $key, $value := pick . "priorityClassName" "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- if $value }}
{{ $key }}: {{- if kindIs "string" $value }} {{ $value }}{{ else }}{{ toYaml $value | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Nodes that have GPUs, as GPU and node feature discovery label them, or clouds: files/gpu-labels.yaml. */}}
{{- define "trilens.gpuNodes" -}}
nodeAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      {{- range .Files.Get "files/gpu-labels.yaml" | fromYamlArray }}
      - matchExpressions: [{key: {{ . }}, operator: NotIn, values: ["false", "0"]}, {key: {{ . }}, operator: Exists}]
      {{- end }}
{{- end }}

{{/* (list TIMES ASKED): a probe over HTTP. */}}
{{- define "trilens.probe" -}}
{{ toYaml (merge (dict "httpGet" (index . 1)) (index . 0)) }}
{{- end }}
