"""Small differences between kinds that need no code of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karpenter_local.apiserver.strategy import Strategy

_NEEDS_REVISION = frozenset(
    {
        "customresourcedefinitions.apiextensions.k8s.io",
        "leases.coordination.k8s.io",
        "endpointslices.discovery.k8s.io",
        "poddisruptionbudgets.policy",
        "runtimeclasses.node.k8s.io",
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "validatingadmissionpolicies.admissionregistration.k8s.io",
        "validatingadmissionpolicybindings.admissionregistration.k8s.io",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "apiservices.apiregistration.k8s.io",
    }
)
"""An update must say which revision it saw."""

_MADE_BY_UPDATE = frozenset(
    {
        "leases.coordination.k8s.io",
        "endpoints",
        "events",
        "limitranges",
        "services",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io",
        "rolebindings.rbac.authorization.k8s.io",
        "roles.rbac.authorization.k8s.io",
        "priorityclasses.scheduling.k8s.io",
    }
)
"""An update of what is not there makes it."""

_RETURNED_WHEN_DELETED = frozenset(
    {
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "podtemplates",
        "resourcequotas",
        "serviceaccounts",
        "services",
        "resourceclaims.resource.k8s.io",
        "resourceclaimtemplates.resource.k8s.io",
        "resourceslices.resource.k8s.io",
        "deviceclasses.resource.k8s.io",
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "csistoragecapacities.storage.k8s.io",
        "storageclasses.storage.k8s.io",
        "volumeattachments.storage.k8s.io",
        "volumeattributesclasses.storage.k8s.io",
    }
)
_ORPHANS = frozenset({"jobs.batch", "replicationcontrollers"})


def with_traits(table: str, strategy: Strategy) -> Strategy:
    """Return the strategy of a built-in table with its differences set."""
    strategy.unconditional_update = table not in _NEEDS_REVISION
    strategy.create_on_update = table in _MADE_BY_UPDATE
    strategy.returns_deleted = table in _RETURNED_WHEN_DELETED
    strategy.orphans_by_default = table in _ORPHANS
    return strategy
