"""
Which instance types a cluster can buy: the choice of a catalogue, for every command.

It is made after the cluster was read. A catalogue that is named wins; else machines, NodePools and node
classes say which cloud they are of, and zones, provider ids and the address of the API server in which
region. Manifests that say nothing are planned for with the catalogue of the cloud in memory. For a live
cluster nothing is assumed: what is not known is refused, with what to give.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from karpenter.api.labels import INSTANCE_TYPE, REGION, ZONE
from karpenter.cloud.catalogs.ec2.data import load_data, region_of_zone
from karpenter.cloud.catalogs.load import AWS, KWOK

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karpenter.api.node import Node
    from karpenter.api.nodeclaim import NodeClaim
    from karpenter.api.nodepool import NodePool
    from karpenter.core.state.cluster import ClusterView

_EC2: Final = "karpenter.k8s.aws"
_CLOUDS: Final = {_EC2: AWS, "eks.amazonaws.com": AWS, "karpenter.kwok.sh": KWOK}
"""Whose machines a NodePool buys, by the API group of its node class; the second is EKS Auto Mode."""

# aws:///us-west-2a/i-0abc: https://github.com/kubernetes/cloud-provider-aws/blob/master/pkg/providers/v1/instances.go
_PROVIDER_ID: Final = re.compile(r"aws:///(?P<zone>[^/]+)/")
_KWOK_ID: Final = "kwok://"
_KWOK_TYPES: Final = ("-linux", "-windows")
# ABC.gr7.us-west-2.eks.amazonaws.com: https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
_EKS_HOST: Final = re.compile(r"\.(?P<region>[a-z0-9-]+)\.eks\.amazonaws\.com(\.cn)?(:\d+)?$")
_NAME_ONE: Final = "name a catalogue with --catalog, such as aws:eu-west-1 or kwok"


class CatalogUnclear(ValueError):  # noqa: N818  reads as what happened
    """No catalogue can be chosen, or the one that was named sells nothing to this cluster."""

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint


def chosen_catalog(view: ClusterView, asked: str = "", *, live: bool, host: str = "") -> str:
    """
    Return the name of the catalogue that was asked for, or of the one that suits the cluster.

    `host` is that of the API server of a `live` cluster.

    Raises:
        CatalogUnclear: a live cluster does not say which one suits it, or a NodePool can buy nothing of it.
    """
    name = asked or suited_catalog(view, host=host) or ("" if live else _for_manifests(view))
    if not name:
        raise CatalogUnclear(
            "no node, no NodePool and no node class says which cloud this is", hint=_NAME_ONE
        )
    if not asked:
        _check_region(name, view, live=live)
    strangers = sorted(pool.name for pool in view.pools.values() if _group(pool) == _EC2)
    if name == KWOK and strangers:
        raise CatalogUnclear(
            f"catalogue {KWOK} sells nothing to NodePool {', '.join(strangers)}, which buys from EC2",
            hint=f"leave --catalog out, or name one of EC2, such as {AWS}:eu-west-1",
        )
    return name


def suited_catalog(view: ClusterView, *, host: str = "") -> str:
    """
    Return the name of the built-in catalogue that suits a cluster.

    It is ``aws`` where machines are bought from EC2 and nothing says in which region, and empty where nothing
    says which cloud it is. A region of GovCloud or China is named too, though it has a price list only.
    """
    machines: list[Node | NodeClaim] = [*view.nodes.values(), *view.claims.values()]
    bought = {_CLOUDS.get(_group(pool), "") for pool in view.pools.values()}
    if bought == {KWOK}:  # what surrounds them may be nodes of any cloud
        return _most(map(_catalog_of, (each for each in machines if _is_kwok(each)))) or KWOK
    found = list(map(_catalog_of, machines))
    if AWS in bought:
        return _most(each for each in found if each != KWOK) or _in_region(_region(view, host))
    classes = {_CLOUDS[group] for group, _, _ in view.node_classes if group in _CLOUDS}
    if named := _most(found):
        return named
    if classes == {KWOK}:
        return KWOK
    region = _region(view, host)
    return _in_region(region) if region or AWS in classes else ""


def _check_region(name: str, view: ClusterView, *, live: bool) -> None:
    if name == AWS and live:
        pools = ", ".join(sorted(each.name for each in view.pools.values() if _group(each) in _CLOUDS))
        bought = f"NodePool {pools} buys from EC2" if pools else "machines are bought from EC2"
        raise CatalogUnclear(
            f"{bought}, and no node, no zone and no subnet says in which region",
            hint=f"name it with --catalog {AWS}:REGION",
        )
    region = name.removeprefix(f"{AWS}:")
    if name not in {AWS, KWOK} and region not in load_data().regions:
        raise CatalogUnclear(
            f"there is a price list of {region}, and no catalogue",
            hint=f"karpenter catalog refresh --region {region} > FILE makes one; name it with --catalog FILE",
        )


def _for_manifests(view: ClusterView) -> str:
    """Return the catalogue for manifests that point to none; empty where they are of a cloud without one."""
    return KWOK if all(_group(pool) in {"", *_CLOUDS} for pool in view.pools.values()) else ""


def _catalog_of(machine: Node | NodeClaim) -> str:
    """Return the catalogue that a machine was bought from; empty where it does not say."""
    labels, provider_id = machine.metadata.labels, _provider_id(machine)
    zone = labels.get(ZONE, "")
    region = _known(labels.get(REGION, "")) or region_of_zone(zone)
    if not region and (found := _PROVIDER_ID.match(provider_id)):
        region = region_of_zone(found["zone"])
    if region:
        return _in_region(region)
    is_kwok = _is_kwok(machine) or labels.get(INSTANCE_TYPE, "").endswith(_KWOK_TYPES)
    return KWOK if is_kwok else ""  # types such as c-4x-amd64-linux


def _is_kwok(machine: Node | NodeClaim) -> bool:
    return _provider_id(machine).startswith(_KWOK_ID)


def _provider_id(machine: Node | NodeClaim) -> str:
    found = getattr(machine.spec, "provider_id", None)
    return found if found is not None else machine.status.provider_id  # type: ignore[union-attr]  # of a claim


def _region(view: ClusterView, host: str) -> str:
    """Return the region of the subnets of node classes, else of the API server, else of what pools name."""
    subnets = (zone for each in view.node_classes.values() for zone in each.zones)
    eks = _EKS_HOST.search(host)
    named = (
        zone
        for pool in view.pools.values()
        for each in pool.spec.template.spec.requirements
        if each.key == ZONE and each.operator == "In"
        for zone in each.values
    )
    return (
        _most(map(region_of_zone, subnets))
        or (_known(eks["region"]) if eks else "")
        or _most(map(region_of_zone, named))
    )


def _known(region: str) -> str:
    """Return a region that has a catalogue, or at least a price list; else nothing."""
    data = load_data() if region.count("-") > 1 else None
    return region if data and (region in data.regions or data.listed_in(region) is not None) else ""


def _in_region(region: str) -> str:
    return f"{AWS}:{region}" if region else AWS


def _most(names: Iterable[str]) -> str:
    found = Counter(filter(None, names))
    return found.most_common(1)[0][0] if found else ""


def _group(pool: NodePool) -> str:
    return pool.spec.template.spec.node_class_ref.group
