"""
Renders the launch templates for a claim: one for each AMI, set of kubelet settings and capacity reservation.

Instance types share a launch template when they start from the same AMI with the same kubelet settings, the
same EFA interfaces and, where capacity is reserved, in the same reservation. Which instance types a launch
asks for is decided in :mod:`karpenter.cloud.aws.instance.filter`.

Pure: the templates are created in EC2 by :class:`~karpenter.cloud.aws.launchtemplate.LaunchTemplateProvider`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.labels import (
    CAPACITY_TYPE,
    DO_NOT_SYNC_TAINTS,
    NO_EXECUTE,
    RESERVED,
    UNREGISTERED,
    domain_of,
)
from karpenter.api.node import Taint
from karpenter.cloud.aws.amifamily.ami import ImageChoice
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import Bootstrap, is_ipv6
from karpenter.cloud.aws.amifamily.bootstrap.bottlerocket import binds_directories
from karpenter.cloud.aws.amifamily.bootstrap.userdata import encode, render_user_data
from karpenter.cloud.aws.cluster import Joining
from karpenter.cloud.aws.instance.filter import InstanceOption, LaunchOptions
from karpenter.cloud.aws.instancetype.types import InstanceTypeInfo, ResolvedKubelet, Traits, resolve_kubelet
from karpenter.cloud.aws.labels import EFA, NIP_SLOTS, NITRO_SANDBOX, PLACEMENT_PARTITION
from karpenter.cloud.aws.launchtemplate import LaunchTemplate, ReservationTarget
from karpenter.cloud.aws.placementgroup import PARTITION
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from karpenter.api.nodeclaim import NodeClaim

# https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
_NOT_FOR_KUBELETS: Final = ("node-restriction.kubernetes.io", "kubernetes.io", "k8s.io")
"""Domains whose labels a kubelet may not set on its own node."""


class ResolvedLaunchTemplate(msgspec.Struct, frozen=True):
    """A launch template, and the instance types and offerings that it is for."""

    template: LaunchTemplate
    options: tuple[InstanceOption, ...]


class LaunchTemplateBuilder(msgspec.Struct, frozen=True, kw_only=True):
    """Renders launch templates from a node class and the settings."""

    node_class: EC2NodeClass
    traits: Traits
    types: Mapping[str, InstanceTypeInfo]
    joining: Joining
    service_cidr: str
    tags: Mapping[str, str]
    reserved_capacity: bool

    def render(self, claim: NodeClaim, options: LaunchOptions) -> tuple[ResolvedLaunchTemplate, ...]:
        """
        Return the launch templates for the instance types of a launch; types without an AMI are left out.

        Raises:
            BadUserData: the user data of the node class cannot be used.
            BadExpression: a kubelet setting has no value for an instance type.
        """
        return tuple(self._templates(claim, options))

    def _templates(self, claim: NodeClaim, options: LaunchOptions) -> Iterator[ResolvedLaunchTemplate]:
        choice = ImageChoice(self.node_class.status.amis)
        by_name = {option.kind.name: option for option in options.options}
        by_image = choice.by_image(option.kind for option in options.options)
        names = {each.id: each.name for each in self.node_class.status.amis}
        for image, kinds in by_image.items():
            groups: dict[tuple[int, ResolvedKubelet], list[InstanceOption]] = {}
            for kind in kinds:
                info = self.types[kind.name]
                key = (
                    info.facts.efa_interfaces if EFA in claim.spec.resources.requests else 0,
                    resolve_kubelet(info, self.traits),
                )
                groups.setdefault(key, []).append(by_name[kind.name])
            for (efa, kubelet), group in groups.items():
                for reserve, part in _by_reservation(group, options, self.reserved_capacity):
                    template = self._template(
                        claim,
                        options,
                        image=(image, names[image]),
                        efa=efa,
                        kubelet=kubelet,
                        reserve=reserve,
                    )
                    yield ResolvedLaunchTemplate(template, tuple(part))

    def _template(
        self,
        claim: NodeClaim,
        options: LaunchOptions,
        *,
        image: tuple[str, str],
        efa: int,
        kubelet: ResolvedKubelet,
        reserve: ReservationTarget | None,
    ) -> LaunchTemplate:
        spec, status = self.node_class.spec, self.node_class.status
        group = self.traits.group
        bootstrap = self._bootstrap(claim, options.capacity_type, kubelet, image_name=image[1])
        return LaunchTemplate(
            cluster=self.joining.name,
            node_class=self.node_class.name,
            region=self.traits.region,
            image=image[0],
            user_data=encode(render_user_data(self.traits.family, bootstrap)),
            profile=status.instance_profile,
            capacity_type=options.capacity_type,
            tenancy=options.tenancy,
            security_groups=tuple(each.id for each in status.security_groups),
            tags=self.tags,
            disks=spec.block_device_mappings or self.traits.family.disks,
            metadata=spec.metadata_options,
            monitoring=bool(spec.detailed_monitoring),
            cpu=spec.cpu_options,
            interfaces=spec.network_interfaces,
            efa=efa,
            public_address=spec.associate_public_ip_address,
            prefixes=spec.ip_prefix_count,
            ipv6=is_ipv6(self.joining.dns),
            tracking=spec.connection_tracking,
            enclave=not claim.spec.resources.requests.keys().isdisjoint({NIP_SLOTS, NITRO_SANDBOX}),
            reserve=reserve,
            group=group.id if group is not None else "",
            partition=_partition(claim) if group is not None and group.strategy == PARTITION else None,
        )

    def _bootstrap(
        self, claim: NodeClaim, capacity_type: str, resolved: ResolvedKubelet, *, image_name: str
    ) -> Bootstrap:
        spec, traits = self.node_class.spec, self.traits
        dns = traits.kubelet.cluster_dns or ((self.joining.dns,) if self.joining.dns else ())
        pods = traits.kubelet.max_pods if isinstance(traits.kubelet.max_pods, int) else resolved.pods
        kubelet = msgspec.structs.replace(
            traits.kubelet,
            cluster_dns=dns,
            max_pods=pods,
            kube_reserved=dict(resolved.reserved.kube),
            system_reserved=dict(resolved.reserved.system),
        )
        return Bootstrap(
            cluster=self.joining.name,
            endpoint=self.joining.endpoint,
            ca_bundle=self.joining.ca_bundle,
            service_cidr=self.service_cidr,
            labels=node_labels(claim, capacity_type, marks_taints=traits.family.marks_taints),
            taints=node_taints(claim),
            kubelet=kubelet,
            all_kubelet=_all_settings(spec.kubelet, dns=dns, pods=pods, resolved=resolved),
            raid0=traits.raid0,
            binds_directories=binds_directories(self.node_class, image_name),
            custom=spec.user_data or "",
        )


def node_labels(claim: NodeClaim, capacity_type: str, *, marks_taints: bool) -> dict[str, str]:
    labels = {**claim.metadata.labels, CAPACITY_TYPE: capacity_type}
    # The kubelet registers with all taints, so Karpenter must not add them a second time.
    if marks_taints:
        labels[DO_NOT_SYNC_TAINTS] = "true"
    return {key: value for key, value in labels.items() if not _is_restricted(domain_of(key))}


def node_taints(claim: NodeClaim) -> tuple[Taint, ...]:
    taints = (*claim.spec.taints, *claim.spec.startup_taints)
    if any((each.key, each.effect) == (UNREGISTERED, NO_EXECUTE) for each in taints):
        return taints
    # The taint keeps pods off until Karpenter has labelled the node: https://karpenter.sh/docs/concepts/nodeclaims/
    return (*taints, Taint(key=UNREGISTERED, effect=NO_EXECUTE))


def _is_restricted(domain: str) -> bool:
    return any(domain == each or domain.endswith(f".{each}") for each in _NOT_FOR_KUBELETS)


def _all_settings(
    plain: Mapping[str, Any], *, dns: tuple[str, ...], pods: int, resolved: ResolvedKubelet
) -> dict[str, Any]:
    """Return all kubelet settings, with those resolved that depend on the instance type."""
    found = {**plain, "maxPods": pods}
    for name, reserved in (
        ("kubeReserved", resolved.reserved.kube),
        ("systemReserved", resolved.reserved.system),
    ):
        found.pop(name, None)
        if reserved:
            found[name] = dict(reserved)
    if dns:
        found["clusterDNS"] = list(dns)
    return found


def _by_reservation(
    group: list[InstanceOption], options: LaunchOptions, targeted: bool
) -> Iterator[tuple[ReservationTarget | None, list[InstanceOption]]]:
    """Yield the instance types by their capacity reservation; all at once when they are not reserved."""
    if options.capacity_type != RESERVED:
        yield (ReservationTarget() if targeted else None), group
        return
    for reservation in sorted({each.reservation_id for option in group for each in option.offerings}):
        part = [
            InstanceOption(
                option.kind, tuple(each for each in option.offerings if each.reservation_id == reservation)
            )
            for option in group
        ]
        target = ReservationTarget(
            id=reservation, type=options.reservation_type, interruptible=options.interruptible
        )
        yield target, [option for option in part if option.offerings]


def _partition(claim: NodeClaim) -> int | None:
    """Return the partition that a claim asks for: the first of those that it allows."""
    allowed = Requirements.from_entries(claim.spec.requirements)[PLACEMENT_PARTITION]
    if allowed.complement or not allowed.values:
        return None
    return int(min(allowed.values))
