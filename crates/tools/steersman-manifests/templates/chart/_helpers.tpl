{{- define "${name}.selectorLabels" -}}
app.kubernetes.io/name: ${name}
{{- end }}

{{- define "${name}.labels" -}}
{{ include "${name}.selectorLabels" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") | trunc 63 | trimSuffix "-" | quote }}
{{- end }}

{{- define "${name}.image" -}}
{{- $tag := .Values.image.tag | default (.Chart.AppVersion | replace "+" "_") -}}
{{- if hasPrefix "sha256:" $tag -}}
{{ .Values.image.repository }}@{{ $tag }}
{{- else -}}
{{ .Values.image.repository }}:{{ $tag }}
{{- end -}}
{{- end }}
