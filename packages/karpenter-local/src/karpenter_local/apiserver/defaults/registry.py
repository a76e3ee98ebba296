"""Which defaults belong to which built-in kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karpenter_local.apiserver.defaults import extensions, others, pods, storage, workloads

if TYPE_CHECKING:
    from collections.abc import Callable

DEFAULTS: dict[str, Callable[[dict[str, Any]], None]] = {
    "pods": pods.pod,
    "podtemplates": workloads.pod_template,
    "replicationcontrollers": workloads.replication_controller,
    "deployments.apps": workloads.deployment,
    "replicasets.apps": workloads.replica_set,
    "statefulsets.apps": workloads.stateful_set,
    "daemonsets.apps": workloads.daemon_set,
    "jobs.batch": workloads.job,
    "cronjobs.batch": workloads.cron_job,
    "persistentvolumeclaims": storage.claim,
    "persistentvolumes": storage.volume,
    "storageclasses.storage.k8s.io": storage.storage_class,
    "csidrivers.storage.k8s.io": storage.csi_driver,
    "services": others.service,
    "secrets": others.secret,
    "endpoints": others.endpoints,
    "endpointslices.discovery.k8s.io": others.endpoint_slice,
    "rolebindings.rbac.authorization.k8s.io": others.role_binding,
    "clusterrolebindings.rbac.authorization.k8s.io": others.role_binding,
    "priorityclasses.scheduling.k8s.io": others.priority_class,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": extensions.mutating_webhooks,
    "validatingadmissionpolicies.admissionregistration.k8s.io": extensions.admission_policy,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": extensions.admission_policy_binding,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": extensions.webhooks,
    "apiservices.apiregistration.k8s.io": extensions.api_service,
    "horizontalpodautoscalers.autoscaling": extensions.autoscaler,
    "flowschemas.flowcontrol.apiserver.k8s.io": extensions.flow_schema,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": extensions.priority_level,
    "ingressclasses.networking.k8s.io": extensions.ingress_class,
    "networkpolicies.networking.k8s.io": extensions.network_policy,
    "limitranges": others.limit_range,
    "resourceclaims.resource.k8s.io": others.resource_claim,
    "resourceclaimtemplates.resource.k8s.io": others.resource_claim_template,
    "customresourcedefinitions.apiextensions.k8s.io": others.definition,
}
