"""Which columns belong to which built-in kind."""

from __future__ import annotations

from karpenter_local.apiserver.tables import extensions, others, storage, workloads
from karpenter_local.apiserver.tables.columns import CREATED, NAME, TableColumn
from karpenter_local.apiserver.tables.nodes import NODES
from karpenter_local.apiserver.tables.pods import PODS

_COLUMNS: dict[str, tuple[TableColumn, ...]] = {
    "configmaps": others.CONFIG_MAPS,
    "endpoints": others.ENDPOINTS,
    "events": others.EVENTS,
    "namespaces": others.NAMESPACES,
    "nodes": NODES,
    "persistentvolumeclaims": storage.CLAIMS,
    "persistentvolumes": storage.VOLUMES,
    "pods": PODS,
    "podtemplates": workloads.TEMPLATES,
    "replicationcontrollers": workloads.REPLICATION_CONTROLLERS,
    "resourcequotas": others.QUOTAS,
    "secrets": others.SECRETS,
    "serviceaccounts": others.PLAIN,
    "services": others.SERVICES,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": extensions.WEBHOOKS,
    "validatingadmissionpolicies.admissionregistration.k8s.io": extensions.POLICIES,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": extensions.POLICY_BINDINGS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": extensions.WEBHOOKS,
    "apiservices.apiregistration.k8s.io": extensions.API_SERVICES,
    "horizontalpodautoscalers.autoscaling": extensions.AUTOSCALERS,
    "flowschemas.flowcontrol.apiserver.k8s.io": extensions.FLOW_SCHEMAS,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": extensions.PRIORITY_LEVELS,
    "ingressclasses.networking.k8s.io": extensions.INGRESS_CLASSES,
    "ingresses.networking.k8s.io": extensions.INGRESSES,
    "networkpolicies.networking.k8s.io": extensions.NETWORK_POLICIES,
    "controllerrevisions.apps": workloads.REVISIONS,
    "daemonsets.apps": workloads.DAEMONSETS,
    "deployments.apps": workloads.DEPLOYMENTS,
    "replicasets.apps": workloads.REPLICASETS,
    "statefulsets.apps": workloads.STATEFULSETS,
    "cronjobs.batch": workloads.CRONJOBS,
    "jobs.batch": workloads.JOBS,
    "leases.coordination.k8s.io": others.LEASES,
    "endpointslices.discovery.k8s.io": others.ENDPOINT_SLICES,
    "runtimeclasses.node.k8s.io": others.RUNTIME_CLASSES,
    "poddisruptionbudgets.policy": workloads.BUDGETS,
    "clusterrolebindings.rbac.authorization.k8s.io": others.BINDINGS,
    "rolebindings.rbac.authorization.k8s.io": others.BINDINGS,
    "deviceclasses.resource.k8s.io": others.PLAIN,
    "resourceclaims.resource.k8s.io": others.CLAIMS,
    "resourceclaimtemplates.resource.k8s.io": others.PLAIN,
    "resourceslices.resource.k8s.io": others.SLICES,
    "priorityclasses.scheduling.k8s.io": workloads.PRIORITIES,
    "csidrivers.storage.k8s.io": storage.DRIVERS,
    "csinodes.storage.k8s.io": storage.CSI_NODES,
    "storageclasses.storage.k8s.io": storage.CLASSES,
    "volumeattachments.storage.k8s.io": storage.ATTACHMENTS,
    "volumeattributesclasses.storage.k8s.io": storage.ATTRIBUTES,
}
GENERAL: tuple[TableColumn, ...] = (NAME, CREATED)


def built_in(table: str) -> tuple[TableColumn, ...]:
    return _COLUMNS.get(table, GENERAL)
