"""Pods: pending when created, deleted with a grace period when they run on a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter_local.apiserver import field_errors
from karpenter_local.apiserver.admission.pods import admit_pod, tolerate_absence
from karpenter_local.apiserver.qos import qos_class
from karpenter_local.apiserver.strategy import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karpenter_local.apiserver.backend import Backend
    from karpenter_local.apiserver.entry import Object
    from karpenter_local.apiserver.field_errors import FieldError
    from karpenter_local.apiserver.resources import APIResource

# https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/
_DEFAULT_GRACE = 30
_FINISHED = frozenset({"Succeeded", "Failed"})


class PodStrategy(Strategy):
    """Rules for writing pods."""

    graceful = True

    def default_status(self, value: Object) -> None:
        """Leave the status of a pod as it is: it has no defaults."""

    def admit(self, backend: Backend, resource: APIResource, value: Object, old: Object | None) -> None:
        """Give a new pod its account, its priority and its tolerations."""
        if old is None:
            admit_pod(backend, resource, value)
        else:
            tolerate_absence(value["spec"])

    def prepare_create(self, resource: APIResource, value: Object) -> None:
        """Begin pending; a gated pod says so at once."""
        _ = resource
        status: Object = {"phase": "Pending"}
        if value["spec"].get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "lastProbeTime": None,
                    "lastTransitionTime": None,
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                }
            ]
        status["qosClass"] = qos_class(value["spec"])
        value["status"] = status

    def validate_status(self, value: Object, old: Object) -> Sequence[FieldError]:
        """Refuse to nominate a pod that is bound."""
        after = (value.get("status") or {}).get("nominatedNodeName")
        before = (old.get("status") or {}).get("nominatedNodeName")
        if not after or after == before or not old["spec"].get("nodeName"):
            return ()
        # The feature gate ClearingNominatedNodeNameAfterBinding, on since 1.35.
        detail = "may not be set on pods that are already bound to a node"
        return (field_errors.forbidden("status.nominatedNodeName", detail),)

    def grace(self, value: Object, asked: int | None) -> int:
        """Return how long the pod may wind down; what is on no node or has finished goes at once."""
        if asked is None:
            given = value["spec"].get("terminationGracePeriodSeconds")
            asked = _DEFAULT_GRACE if given is None else int(given)
        if not value["spec"].get("nodeName"):
            return 0
        if (value.get("status") or {}).get("phase") in _FINISHED:
            return 0
        return 1 if asked < 0 else asked
