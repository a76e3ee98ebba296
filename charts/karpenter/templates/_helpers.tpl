{{- define "karpenter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "karpenter.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "karpenter.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "karpenter.account" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "karpenter.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "karpenter.container" -}}
{{- default "controller" .Values.controller.containerName }}
{{- end }}

{{- define "karpenter.image" -}}
{{- $image := .Values.controller.image }}
{{- if regexMatch "(^|/)(public[.]ecr[.]aws|ecr-public)/karpenter/controller$" $image.repository }}
{{- fail (printf "controller.image.repository is %s, the image of another operator, which cannot run here; hint: helm upgrade --reset-then-reuse-values, or set controller.image.repository, tag and digest" $image.repository) }}
{{- end }}
{{- $digest := ternary (printf "@%s" $image.digest) "" (not (empty $image.digest)) }}
{{- $tag := include "karpenter.text" (default .Chart.AppVersion $image.tag) }}
{{- printf "%s:%s%s" $image.repository $tag $digest }}
{{- end }}

{{- /* Numbers in files of values are floats: a whole one is printed without point and exponent. */}}
{{- define "karpenter.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) (float64 .)) }}
{{- int64 . }}
{{- else if not (kindIs "invalid" .) }}
{{- . }}
{{- end }}
{{- end }}

{{- /* The lease has the name and the namespace that the operator's environment says. */}}
{{- define "karpenter.lease" -}}
{{- $name := "karpenter-leader-election" }}
{{- range .Values.controller.env }}
{{- if eq .name "LEADER_ELECTION_NAME" }}
{{- $name = default "karpenter-leader-election" .value }}
{{- end }}
{{- end }}
{{- $name }}
{{- end }}

{{- define "karpenter.leaseNamespace" -}}
{{- $namespace := .Release.Namespace }}
{{- range .Values.controller.env }}
{{- if eq .name "LEADER_ELECTION_NAMESPACE" }}
{{- $namespace = default $.Release.Namespace .value }}
{{- end }}
{{- end }}
{{- $namespace }}
{{- end }}

{{- define "karpenter.selector" -}}
matchLabels:
  app.kubernetes.io/name: {{ include "karpenter.name" . | quote }}
  app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* Terms about pods that select none are about the operator's own pods. */}}
{{- define "karpenter.affinity" -}}
{{- $selector := include "karpenter.selector" . | fromYaml }}
{{- $affinity := deepCopy .Values.affinity }}
{{- range $kind := list "podAffinity" "podAntiAffinity" }}
{{- $rules := default dict (get $affinity $kind) }}
{{- $terms := default list $rules.requiredDuringSchedulingIgnoredDuringExecution }}
{{- range $rules.preferredDuringSchedulingIgnoredDuringExecution }}
{{- $terms = append $terms .podAffinityTerm }}
{{- end }}
{{- range $terms }}
{{- if not (hasKey . "labelSelector") }}
{{- $_ := set . "labelSelector" $selector }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{- define "karpenter.topologySpreadConstraints" -}}
{{- $selector := include "karpenter.selector" . | fromYaml }}
{{- $constraints := deepCopy .Values.topologySpreadConstraints }}
{{- range $constraints }}
{{- if not (hasKey . "labelSelector") }}
{{- $_ := set . "labelSelector" $selector }}
{{- end }}
{{- end }}
{{- toYaml $constraints }}
{{- end }}

{{- /* Containers beside the operator have its volumes mounted, and volumes of their own. */}}
{{- define "karpenter.sidecars" -}}
{{- $mounts := default list .Values.controller.extraVolumeMounts }}
{{- $more := concat $mounts (default list .Values.controller.sidecarVolumeMounts) }}
{{- $sidecars := deepCopy .Values.controller.sidecarContainer }}
{{- range $sidecars }}
{{- if $more }}
{{- $_ := set . "volumeMounts" (concat (default list .volumeMounts) $more) }}
{{- end }}
{{- end }}
{{- toYaml $sidecars }}
{{- end }}
