"""
The props of the add-ons: what users write, in the spelling of Python or in that of the blueprints.

Pure. A prop may be written ``subnet_tags`` or ``subnetTags``; one that does not exist is refused together
with the one that was probably meant. What is refused besides is in :mod:`.rules`.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from karpenter.api.ec2nodeclass import EC2NodeClassSpec
from karpenter.api.meta import Wire, explain, to_plain
from karpenter.api.nodepool import NodePoolSpec
from karpenter.cdk.rules import AddOnError

Plain = dict[str, Any]

FIRST_VERSION: Final = "v0.25.0"
"""Of the legacy add-on where a Provisioner comes from its props."""

LAST_VERSION: Final = "1.0.6"
"""Of the legacy add-on where a NodePool comes from its specs."""

SERVICE_ACCOUNT: Final = "blueprints-addon-karpenter"


class HelmProps(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Settings with which a chart is installed."""

    name: str = "karpenter"
    chart: str = "karpenter"
    namespace: str | None = None
    release: str = "karpenter"
    repository: str | None = None
    version: str | None = None
    values: Plain = {}
    """Values of the chart, laid over those that the add-on has by itself."""

    dependency_mode: bool = True
    """Whether it waits for the add-ons before it."""

    skip_version_validation: bool = False
    helm_chart_timeout: int = 5
    """Minutes that Helm waits for the pods."""


class PropRequirement(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on a label, as the blueprints spelled it."""

    key: str
    op: str = ""
    vals: list[str] = []
    values: list[str] = []

    @property
    def operator(self) -> str:
        return self.op or "In"


class KarpenterProps(HelmProps, frozen=True, kw_only=True, rename="camel"):
    """Props of the legacy add-on: flat ones for a Provisioner, or two specs for a NodePool and its class."""

    requirements: list[PropRequirement] = []
    provisioner_specs: dict[str, list[str]] = {}
    """What `requirements` was before: values by label, all of them meant as ``In``."""

    taints: list[Plain] = []
    subnet_tags: dict[str, str] = {}
    security_group_tags: dict[str, str] = {}
    ami_family: str | None = None
    consolidation: dict[str, bool] | None = None
    ttl_seconds_after_empty: int | None = None
    ttl_seconds_until_expired: int | None = None
    limits: Plain | None = None
    weight: int | None = None
    interruption_handling: bool = False
    create_spot_service_linked_role: bool = False
    node_pool_spec: Plain | None = None
    ec2_node_class_spec: Plain | None = msgspec.field(name="ec2NodeClassSpec", default=None)
    install_crds: bool = msgspec.field(name="installCRDs", default=False)
    pod_identity: bool = False

    @property
    def has_specs(self) -> bool:
        return self.node_pool_spec is not None or self.ec2_node_class_spec is not None

    @property
    def has_flat(self) -> bool:
        return bool(self.subnet_tags and self.security_group_tags)

    @property
    def stated_version(self) -> str:
        return self.version or (LAST_VERSION if self.has_specs else FIRST_VERSION)

    @property
    def stated_namespace(self) -> str:
        return self.namespace or ("kube-system" if self.has_specs else "karpenter")

    @property
    def flat(self) -> Plain:
        """The props of the Provisioner as `karpenter convert` reads them."""
        found: Plain = msgspec.to_builtins(self)
        names = (
            "provisionerSpecs",
            "taints",
            "subnetTags",
            "securityGroupTags",
            "amiFamily",
            "consolidation",
            "ttlSecondsAfterEmpty",
            "ttlSecondsUntilExpired",
            "limits",
            "weight",
        )
        kept = {name: found[name] for name in names if found[name] not in (None, {}, [])}
        kept["requirements"] = [
            {"key": each.key, "op": each.operator, "vals": each.vals or each.values}
            for each in self.requirements
        ]
        return kept


class KarpenterV1Props(HelmProps, frozen=True, kw_only=True, rename="camel"):
    """Props of the add-on for version 1."""

    node_pool_spec: Plain | None = None
    """One pool, flat as the blueprints had it: requirements, taints, disruption and so on side by side."""

    ec2_node_class_spec: Plain | None = msgspec.field(name="ec2NodeClassSpec", default=None)
    node_pools: dict[str, Plain] = {}
    """Specs of NodePools by their names, as in a manifest."""

    ec2_node_classes: dict[str, Plain] = msgspec.field(name="ec2NodeClasses", default={})
    interruption_handling: bool = True
    create_spot_service_linked_role: bool = False
    """Whether to make the account's role for EC2 Spot; the deployment fails where it exists."""

    install_crds: bool = msgspec.field(name="installCRDs", default=True)
    pod_identity: bool = False
    service_account: str = SERVICE_ACCOUNT
    """Who the operator is."""

    image: str | None = None
    """The image of the operator, with its registry and without its tag, for the chart of this project."""

    @property
    def stated_namespace(self) -> str:
        return self.namespace or "kube-system"


P = TypeVar("P", bound=HelmProps)


def read_props(
    sort: type[P], given: Mapping[str, Any] | None, more: Mapping[str, Any], *, identifier: str
) -> P:
    """
    Return props, however they are spelled; nothing that was given is kept or changed.

    Raises:
        AddOnError: naming a prop that does not exist or is of the wrong type.
    """
    names = {field.name: field.encode_name for field in msgspec.structs.fields(sort)}
    spelled = {**names, **{wire: wire for wire in names.values()}}
    plain: Plain = {}
    for key, value in {**(given or {}), **more}.items():
        if key not in spelled:
            close = difflib.get_close_matches(key, spelled, n=1)
            raise AddOnError(
                f"{identifier} has no prop {key}", hint=f"did you mean {close[0]}?" if close else ""
            )
        plain[spelled[key]] = _plain(value)
    try:
        return msgspec.convert(plain, sort)
    except msgspec.ValidationError as error:
        place, problem = explain(str(error))
        raise AddOnError(f"{identifier}: {place or 'props'}: {problem}") from error


def _plain(value: Any) -> Any:
    """Return a copy without structs of the API, which are written as Kubernetes spells them."""
    if isinstance(value, Wire):
        return to_plain(value)
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


NodePoolSource = NodePoolSpec | Mapping[str, Any]
"""The spec of a NodePool: typed, or as in a manifest."""

EC2NodeClassSource = EC2NodeClassSpec | Mapping[str, Any]
"""The spec of an EC2NodeClass: typed, or as in a manifest."""


def spec_of(source: NodePoolSource | EC2NodeClassSource) -> Plain:
    """Return a spec as plain data, which the caller may change."""
    found: Plain = _plain(source)
    return found
