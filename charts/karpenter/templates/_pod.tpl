{{/*
The settings as environment variables, in a fixed order. A setting that is false, 0 or empty sets none, as in Karpenter's chart.
Variables that fleetwright.settings names are left out here and come last.
*/}}
{{- define "fleetwright.env" -}}
{{- $settings := .Values.settings -}}
{{- $gates := list -}}
{{- range list "ReservedCapacity" "SpotToSpotConsolidation" "NodeRepair" "NodeOverlay" "StaticCapacity" "CapacityBuffer" -}}
{{- $gates = append $gates (printf "%s=%v" . (get $settings.featureGates (untitle .))) -}}
{{- end -}}
{{- $clusterName := tpl $settings.clusterName . -}}
{{- if and (not $clusterName) (ne .Values.fleetwright.cloud "fake") -}}
{{- fail "settings.clusterName is empty: set it to the name of the EKS cluster" -}}
{{- end -}}
{{- $container := include "fleetwright.container" . -}}
{{- $cpu := dict "resourceFieldRef" (dict "containerName" $container "divisor" "1m" "resource" "requests.cpu") -}}
{{- $memory := dict "resourceFieldRef" (dict "containerName" $container "divisor" "0" "resource" "limits.memory") -}}
{{- $variables := list
  (list "KUBERNETES_MIN_VERSION" "1.19.0-0")
  (list "KARPENTER_SERVICE" (include "fleetwright.fullname" .))
  (list "LOG_LEVEL" .Values.logLevel)
  (list "LOG_OUTPUT_PATHS" (join "," .Values.logOutputPaths))
  (list "LOG_ERROR_OUTPUT_PATHS" (join "," .Values.logErrorOutputPaths))
  (list "METRICS_PORT" .Values.controller.metrics.port)
  (list "HEALTH_PROBE_PORT" .Values.controller.healthProbe.port)
  (list "SYSTEM_NAMESPACE" (dict "fieldRef" (dict "fieldPath" "metadata.namespace")))
  (list "CPU_REQUESTS" $cpu)
  (list "MEMORY_LIMIT" $memory)
  (list "FEATURE_GATES" (join "," $gates))
  (list "BATCH_MAX_DURATION" $settings.batchMaxDuration)
  (list "BATCH_IDLE_DURATION" $settings.batchIdleDuration)
  (list "PREFERENCE_POLICY" $settings.preferencePolicy)
  (list "MIN_VALUES_POLICY" $settings.minValuesPolicy)
  (list "CLUSTER_CA_BUNDLE" $settings.clusterCABundle)
  (list "CLUSTER_NAME" $clusterName)
  (list "CLUSTER_ENDPOINT" $settings.clusterEndpoint)
  (list "ISOLATED_VPC" $settings.isolatedVPC)
  (list "EKS_CONTROL_PLANE" $settings.eksControlPlane)
  (list "VM_MEMORY_OVERHEAD_PERCENT" $settings.vmMemoryOverheadPercent)
  (list "INTERRUPTION_QUEUE" $settings.interruptionQueue)
  (list "ENABLE_ZONAL_SHIFT" $settings.enableZonalShift)
  (list "RESERVED_ENIS" $settings.reservedENIs)
  (list "IGNORE_DRA_REQUESTS" $settings.ignoreDRARequests)
  (list "DISABLE_CLUSTER_STATE_OBSERVABILITY" $settings.disableClusterStateObservability)
  (list "DISABLE_DRY_RUN" $settings.disableDryRun)
  (list "AMI_REFRESH_INTERVAL" $settings.amiRefreshInterval)
  (list "SUBNET_REFRESH_INTERVAL" $settings.subnetRefreshInterval)
-}}
{{- with $settings.awsFeatureGates -}}
{{- $variables = append $variables (list "AWS_FEATURE_GATES" (printf "NodeClassCEL=%v" (.nodeClassCEL | default false))) -}}
{{- end -}}
{{- with .Values.fleetwright.shadow -}}
{{- $variables = append $variables (list "SHADOW" .) -}}
{{- end -}}
{{- with .Values.fleetwright.ui -}}
{{- $variables = append $variables (list "UI_ENDPOINT" .) -}}
{{- end -}}
{{- with .Values.fleetwright.cloud -}}
{{- $variables = append $variables (list "CLOUD" .) -}}
{{- end -}}
{{- if eq .Values.fleetwright.cloud "fake" -}}
{{- $variables = append $variables (list "FAKE_CLOUD" (printf "http://%s.%s.svc:8090" (include "fleetwright.fakeCloud" .) .Release.Namespace)) -}}
{{- end -}}
{{- $own := .Values.fleetwright.settings -}}
{{- range $variables -}}
{{- $name := first . -}}
{{- $value := last . -}}
{{- if and $value (not (hasKey $own $name)) }}
- name: {{ $name }}
{{- if kindIs "map" $value }}
  valueFrom: {{ toYaml $value | nindent 4 }}
{{- else }}
  value: {{ tpl (toString $value) $ | quote }}
{{- end }}
{{- end -}}
{{- end -}}
{{- range $name, $value := $own }}
- name: {{ $name }}
  value: {{ toString $value | quote }}
{{- end -}}
{{- end -}}

{{/* A copy of the affinity, whose pod terms without labelSelector select the controller's pods. */}}
{{- define "fleetwright.affinity" -}}
{{- $affinity := deepCopy .Values.affinity -}}
{{- $selector := dict "matchLabels" (include "fleetwright.selector" . | fromYaml) -}}
{{- range $kind := list "podAffinity" "podAntiAffinity" -}}
{{- $terms := get $affinity $kind | default dict -}}
{{- range get $terms "requiredDuringSchedulingIgnoredDuringExecution" | default list -}}
{{- if not (hasKey . "labelSelector") }}{{ $_ := set . "labelSelector" $selector }}{{ end -}}
{{- end -}}
{{- range get $terms "preferredDuringSchedulingIgnoredDuringExecution" | default list -}}
{{- if not (hasKey .podAffinityTerm "labelSelector") }}{{ $_ := set .podAffinityTerm "labelSelector" $selector }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}

{{/* A copy of the topology spread constraints, where those without labelSelector select the controller's pods. */}}
{{- define "fleetwright.spread" -}}
{{- $selector := dict "matchLabels" (include "fleetwright.selector" . | fromYaml) -}}
{{- $constraints := deepCopy .Values.topologySpreadConstraints -}}
{{- range $constraints -}}
{{- if not (hasKey . "labelSelector") }}{{ $_ := set . "labelSelector" $selector }}{{ end -}}
{{- end -}}
{{- toYaml $constraints -}}
{{- end -}}
