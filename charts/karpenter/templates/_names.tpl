{{/* Name in labels: the chart's, or nameOverride. */}}
{{- define "fleetwright.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the objects. The label uses nameOverride cut to 63 characters, the search in the release name the whole of it. */}}
{{- define "fleetwright.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $joined := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $joined | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "fleetwright.serviceAccount" -}}
{{- $default := ternary (include "fleetwright.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $default -}}
{{- end -}}

{{- define "fleetwright.container" -}}
{{- .Values.controller.containerName | default "controller" -}}
{{- end -}}

{{/* The image. controller.image is not read: values written for Karpenter name Karpenter's image there, with its digest. */}}
{{- define "fleetwright.image" -}}
{{- $image := .Values.fleetwright.image -}}
{{- $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}{{ with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* What selects the controller's pods. */}}
{{- define "fleetwright.selector" -}}
app.kubernetes.io/name: {{ include "fleetwright.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "fleetwright.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "fleetwright.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
Labels and annotations of an object's metadata. Arguments: root, and optionally labels and annotations beyond the common ones.
*/}}
{{- define "fleetwright.metadata" -}}
labels:
  {{- include "fleetwright.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- if or .root.Values.additionalAnnotations .annotations }}
annotations:
  {{- with .root.Values.additionalAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .annotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Binds a Role or ClusterRole of the same name to the controller. Arguments: root, kind, name, namespace. */}}
{{- define "fleetwright.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  {{- include "fleetwright.metadata" (dict "root" .root) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "fleetwright.serviceAccount" .root }}
    namespace: {{ .root.Release.Namespace }}
{{- end -}}

{{/* Name of the fake cloud's objects; only with fleetwright.cloud=fake. */}}
{{- define "fleetwright.fakeCloud" -}}
fleetwright-fake-cloud
{{- end -}}
