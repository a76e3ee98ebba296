"""Which rules belong to which built-in kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver.validation import extensions, jobs, others, pods, workloads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.field_errors import FieldError

RULES: dict[str, Callable[[Object, Object | None], Iterable[FieldError]]] = {
    "pods": pods.pod,
    "configmaps": others.config_map,
    "secrets": others.secret,
    "services": others.service,
    "nodes": others.node,
    "persistentvolumeclaims": others.claim,
    "persistentvolumes": others.volume,
    "events": others.event,
    "podtemplates": pods.pod_template,
    "replicationcontrollers": workloads.replication_controller,
    "deployments.apps": workloads.deployment,
    "replicasets.apps": workloads.replica_set,
    "daemonsets.apps": workloads.daemon_set,
    "statefulsets.apps": workloads.stateful_set,
    "jobs.batch": jobs.job,
    "cronjobs.batch": jobs.cron_job,
    "horizontalpodautoscalers.autoscaling": extensions.autoscaler,
    "ingresses.networking.k8s.io": extensions.ingress,
    "validatingadmissionpolicies.admissionregistration.k8s.io": extensions.admission_policy,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": extensions.admission_policy_binding,
    "leases.coordination.k8s.io": others.lease,
    "poddisruptionbudgets.policy": workloads.budget,
    "storageclasses.storage.k8s.io": others.storage_class,
    "priorityclasses.scheduling.k8s.io": others.priority_class,
    "clusterroles.rbac.authorization.k8s.io": others.role,
    "roles.rbac.authorization.k8s.io": others.role,
    "clusterrolebindings.rbac.authorization.k8s.io": others.binding,
    "rolebindings.rbac.authorization.k8s.io": others.binding,
}
