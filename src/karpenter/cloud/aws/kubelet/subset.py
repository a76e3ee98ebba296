"""
The kubelet settings that decide what fits on a node, worked out for an instance type.

Everything else that a class says about the kubelet is passed on as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import structlog

from karpenter.cloud.aws.kubelet.expressions import (
    BadExpression,
    evaluate_amount,
    evaluate_pods,
    is_expression,
)
from karpenter.cloud.errors import NodeClassNotReady

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karpenter.api.ec2nodeclass import EC2NodeClass
    from karpenter.cloud.aws.kubelet.expressions import Machine

log = structlog.stdlib.get_logger(__name__)


class KubeletSubset(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The settings that we understand."""

    cluster_dns: tuple[str, ...] = msgspec.field(name="clusterDNS", default=())
    max_pods: int | str | None = None
    pods_per_core: int | None = None
    system_reserved: dict[str, str] = {}
    kube_reserved: dict[str, str] = {}
    eviction_hard: dict[str, str] = {}
    eviction_soft: dict[str, str] = {}
    eviction_soft_grace_period: dict[str, str] = {}
    eviction_max_pod_grace_period: int | None = None
    image_gc_high: int | None = msgspec.field(name="imageGCHighThresholdPercent", default=None)
    image_gc_low: int | None = msgspec.field(name="imageGCLowThresholdPercent", default=None)
    cpu_cfs_quota: bool | None = msgspec.field(name="cpuCFSQuota", default=None)

    def pods(self, machine: Machine, *, expressions: bool) -> int | None:
        """
        Return the number of pods that is asked for; None when nothing is, or only where expressions are off.

        Raises:
            BadExpression: an expression comes to nothing for this machine.
        """
        if isinstance(self.max_pods, str):
            return evaluate_pods(self.max_pods, machine) if expressions else None
        return self.max_pods

    def reserved(self, machine: Machine, *, expressions: bool) -> Reserved:
        """Return what is set aside, worked out for a machine whose number of pods is settled."""
        return Reserved(
            kube=_worked_out(self.kube_reserved, machine, expressions=expressions),
            system=_worked_out(self.system_reserved, machine, expressions=expressions),
        )


class Reserved(msgspec.Struct, frozen=True):
    """Amounts that are set aside for the kubelet and for the system, as quantities."""

    kube: tuple[tuple[str, str], ...] = ()
    system: tuple[tuple[str, str], ...] = ()


def read_kubelet(node_class: EC2NodeClass) -> KubeletSubset:
    """
    Return the kubelet settings of a class that we understand.

    Raises:
        NodeClassNotReady: they cannot be read.
    """
    try:
        return msgspec.convert(node_class.spec.kubelet, KubeletSubset)
    except msgspec.ValidationError as error:
        raise NodeClassNotReady(node_class=node_class.name, because=f"spec.kubelet: {error}") from error


def _worked_out(
    entries: Mapping[str, str], machine: Machine, *, expressions: bool
) -> tuple[tuple[str, str], ...]:
    """Return amounts with their expressions worked out; those that cannot be are left out and logged."""
    found: dict[str, str] = {}
    for key, value in entries.items():
        if not is_expression(value):
            found[key] = value
        elif expressions:
            try:
                found[key] = evaluate_amount(key, value, machine)
            except BadExpression as error:
                log.error("kubelet.expression_dropped", resource=key, error=str(error))  # noqa: TRY400  its words suffice
    return tuple(sorted(found.items()))
