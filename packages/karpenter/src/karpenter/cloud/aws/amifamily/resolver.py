"""
From a claim and what may be bought for it to recipes: how the machines are made, image by image.

Instance types share a recipe when they start from the same image, with the same kubelet settings, the same
EFA interfaces and, where capacity is reserved, into the same reservation.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from karpenter.cloud.aws.instance.filter import Option
from karpenter.cloud.aws.instancetype.instancetype import SoldType, Traits
from karpenter.cloud.aws.instancetype.types import settle
from karpenter.cloud.aws.labels import EFA, NIP_SLOTS, NITRO_SANDBOX, PLACEMENT_PARTITION
from karpenter.cloud.aws.launchtemplate import Recipe, Reserve
from karpenter.cloud.aws.placementgroup import PARTITION
from karpenter.core.model.requirements import Requirements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.cloud.aws.instance.filter import Purchase
    from karpenter.cloud.aws.instancetype.types import Settled

_NOT_FOR_KUBELETS: Final = ("node-restriction.kubernetes.io", "kubernetes.io", "k8s.io")
"""Domains whose labels a kubelet may not set on its own node."""


class Cooked(msgspec.Struct, frozen=True):
    """A recipe, and the offerings that it is for."""

    recipe: Recipe
    options: tuple[Option, ...]


class Kitchen(msgspec.Struct, frozen=True, kw_only=True):
    """What recipes are made from, beside the claim."""

    node_class: EC2NodeClass
    traits: Traits
    types: Mapping[str, SoldType]
    joining: Joining
    service_cidr: str
    tags: Mapping[str, str]
    reserved_capacity: bool

    def cook(self, claim: NodeClaim, purchase: Purchase) -> tuple[Cooked, ...]:
        """
        Return the recipes for what is bought; types without an image are left out.

        Raises:
            BadUserData: the user data of the class cannot be used.
            BadExpression: a kubelet setting comes to nothing.
        """
        return tuple(self._recipes(claim, purchase))

    def _recipes(self, claim: NodeClaim, purchase: Purchase) -> Iterator[Cooked]:
        choice = ImageChoice(self.node_class.status.amis)
        by_name = {option.kind.name: option for option in purchase.options}
        by_image = choice.by_image(option.kind for option in purchase.options)
        names = {each.id: each.name for each in self.node_class.status.amis}
        for image, kinds in by_image.items():
            groups: dict[tuple[int, Settled], list[Option]] = {}
            for kind in kinds:
                sold = self.types[kind.name]
                key = (self._efa(claim, sold), settle(sold, self.traits))
                groups.setdefault(key, []).append(by_name[kind.name])
            for (efa, settled), options in groups.items():
                for reserve, part in _by_reservation(options, purchase, self.reserved_capacity):
                    recipe = self._recipe(
                        claim,
                        purchase,
                        image=(image, names[image]),
                        efa=efa,
                        settled=settled,
                        reserve=reserve,
                    )
                    yield Cooked(recipe, tuple(part))

    def _efa(self, claim: NodeClaim, sold: SoldType) -> int:
        return sold.facts.efa_interfaces if EFA in claim.spec.resources.requests else 0

    def _recipe(
        self,
        claim: NodeClaim,
        purchase: Purchase,
        *,
        image: tuple[str, str],
        efa: int,
        settled: Settled,
        reserve: Reserve | None,
    ) -> Recipe:
        spec, status = self.node_class.spec, self.node_class.status
        group = self.traits.group
        told = self._bootstrap(claim, purchase.capacity_type, settled, image_name=image[1])
        return Recipe(
            cluster=self.joining.name,
            node_class=self.node_class.name,
            region=self.traits.region,
            image=image[0],
            user_data=encode(render_user_data(self.traits.family, told)),
            profile=status.instance_profile,
            capacity_type=purchase.capacity_type,
            tenancy=purchase.tenancy,
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
        self, claim: NodeClaim, capacity_type: str, settled: Settled, *, image_name: str
    ) -> Bootstrap:
        spec, traits = self.node_class.spec, self.traits
        dns = traits.kubelet.cluster_dns or ((self.joining.dns,) if self.joining.dns else ())
        pods = traits.kubelet.max_pods if isinstance(traits.kubelet.max_pods, int) else settled.pods
        kubelet = msgspec.structs.replace(
            traits.kubelet,
            cluster_dns=dns,
            max_pods=pods,
            kube_reserved=dict(settled.reserved.kube),
            system_reserved=dict(settled.reserved.system),
        )
        return Bootstrap(
            cluster=self.joining.name,
            endpoint=self.joining.endpoint,
            ca_bundle=self.joining.ca_bundle,
            service_cidr=self.service_cidr,
            labels=node_labels(claim, capacity_type, marks_taints=traits.family.marks_taints),
            taints=node_taints(claim),
            kubelet=kubelet,
            all_kubelet=_resolved(spec.kubelet, dns=dns, pods=pods, settled=settled),
            raid0=traits.raid0,
            binds_directories=binds_directories(self.node_class, image_name),
            custom=spec.user_data or "",
        )


def node_labels(claim: NodeClaim, capacity_type: str, *, marks_taints: bool) -> dict[str, str]:
    """Return the labels with which a kubelet registers its node."""
    labels = {**claim.metadata.labels, CAPACITY_TYPE: capacity_type}
    if marks_taints:
        labels[DO_NOT_SYNC_TAINTS] = "true"
    return {key: value for key, value in labels.items() if not _is_restricted(domain_of(key))}


def node_taints(claim: NodeClaim) -> tuple[Taint, ...]:
    """Return the taints with which a kubelet registers its node."""
    taints = (*claim.spec.taints, *claim.spec.startup_taints)
    if any((each.key, each.effect) == (UNREGISTERED, NO_EXECUTE) for each in taints):
        return taints
    return (*taints, Taint(key=UNREGISTERED, effect=NO_EXECUTE))


def _is_restricted(domain: str) -> bool:
    return any(domain == each or domain.endswith(f".{each}") for each in _NOT_FOR_KUBELETS)


def _resolved(
    plain: Mapping[str, Any], *, dns: tuple[str, ...], pods: int, settled: Settled
) -> dict[str, Any]:
    """Return all kubelet settings, with what depends on the instance type worked out."""
    found = {**plain, "maxPods": pods}
    for name, reserved in (
        ("kubeReserved", settled.reserved.kube),
        ("systemReserved", settled.reserved.system),
    ):
        found.pop(name, None)
        if reserved:
            found[name] = dict(reserved)
    if dns:
        found["clusterDNS"] = list(dns)
    return found


def _by_reservation(
    options: Iterable[Option], purchase: Purchase, targeted: bool
) -> Iterator[tuple[Reserve | None, list[Option]]]:
    """Yield options by the reservation that they are bought from; all at once where none is."""
    if purchase.capacity_type != RESERVED:
        yield (Reserve() if targeted else None), list(options)
        return
    held = list(options)
    for number in sorted({each.reservation_id for option in held for each in option.offerings}):
        part = [
            type(option)(
                option.kind, tuple(each for each in option.offerings if each.reservation_id == number)
            )
            for option in held
        ]
        reserve = Reserve(id=number, type=purchase.reservation_type, interruptible=purchase.interruptible)
        yield reserve, [option for option in part if option.offerings]


def _partition(claim: NodeClaim) -> int | None:
    """Return the partition that a claim asks for: the first of those that it allows."""
    allowed = Requirements.from_entries(claim.spec.requirements)[PLACEMENT_PARTITION]
    if allowed.complement or not allowed.values:
        return None
    return int(min(allowed.values))
