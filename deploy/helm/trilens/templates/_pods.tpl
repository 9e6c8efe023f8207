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

{{/* A quantity as a plain number, since Kubernetes keeps 1024Gi as 1Ti; what is none, as it is. */}}
{{- define "trilens.bytes" -}}
{{- $unit := regexFind "[A-Za-z]+$" . }}
{{- $sizes := dict "" 1 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 }}
{{- if and (regexMatch "^[0-9.]+[A-Za-z]*$" .) (hasKey $sizes $unit) }}{{ mulf (trimSuffix $unit . | float64) (get $sizes $unit) }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{/* (list TIMES ASKED): a probe over HTTP. */}}
{{- define "trilens.probe" -}}
{{ toYaml (merge (dict "httpGet" (index . 1)) (index . 0)) }}
{{- end }}
