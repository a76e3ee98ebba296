"""The definitions of our kinds: names, columns, subresources, and the schema of each."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from karpenter.api.buffer import CapacityBuffer
from karpenter.api.crd.schemas import object_schema
from karpenter.api.ec2nodeclass import EC2NodeClass
from karpenter.api.kinds import Kind, kind_of
from karpenter.api.kwok import KWOKNodeClass
from karpenter.api.nodeclaim import NodeClaim
from karpenter.api.nodepool import NodePool
from karpenter.api.overlay import NodeOverlay


class Column(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A column that ``kubectl get`` prints; those of priority 1 only with ``-o wide``."""

    name: str
    json_path: str
    type: str = "string"
    priority: int | UnsetType = UNSET
    """Left out unless it is 1, as a server does: for a 0, every ``kubectl apply`` would find a change."""


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What a definition says about a kind besides its schema."""

    kind: Kind
    columns: tuple[Column, ...]
    categories: tuple[str, ...] = ("karpenter",)
    short_names: tuple[str, ...] = ()
    scale: tuple[str, str] | None = None
    """Where the wanted and the actual count are, for ``kubectl scale``."""

    @property
    def name(self) -> str:
        """The name of the definition, such as ``nodepools.karpenter.sh``."""
        return f"{self.kind.plural}.{self.kind.group}"

    @property
    def file_name(self) -> str:
        """The file that the chart keeps the definition in."""
        return f"{self.kind.group}_{self.kind.plural}.yaml"


def _text(name: str, path: str, *, priority: int | UnsetType = UNSET) -> Column:
    return Column(name=name, json_path=path, priority=priority)


def _number(name: str, path: str, *, priority: int | UnsetType = UNSET) -> Column:
    return Column(name=name, json_path=path, type="integer", priority=priority)


def _condition(name: str, *, priority: int | UnsetType = UNSET) -> Column:
    return _text(name, f'.status.conditions[?(@.type=="{name}")].status', priority=priority)


def _label(name: str, label: str, *, priority: int | UnsetType = UNSET) -> Column:
    escaped = label.replace(".", "\\.")
    return _text(name, f".metadata.labels.{escaped}", priority=priority)


_AGE = Column(name="Age", json_path=".metadata.creationTimestamp", type="date")

DEFINITIONS: tuple[Definition, ...] = (
    Definition(
        kind=kind_of(CapacityBuffer),
        categories=("autoscaling",),
        short_names=("cb",),
        columns=(
            _text("Strategy", ".spec.provisioningStrategy"),
            _text("PodTemplate", ".status.podTemplateRef.name"),
            _number("Replicas", ".status.replicas"),
            _text("ConditionsType", ".status.conditions[*].type"),
            _text("ConditionsStatus", ".status.conditions[*].status"),
            _text("ConditionsReason", ".status.conditions[*].reason"),
            _AGE,
        ),
    ),
    Definition(
        kind=kind_of(EC2NodeClass),
        short_names=("ec2nc", "ec2ncs"),
        columns=(_condition("Ready"), _AGE, _text("Role", ".spec.role", priority=1)),
    ),
    Definition(
        kind=kind_of(KWOKNodeClass),
        short_names=("kwoknc", "kwokncs"),
        columns=(_condition("Ready"), _AGE),
    ),
    Definition(
        kind=kind_of(NodeClaim),
        columns=(
            _label("Type", "node.kubernetes.io/instance-type"),
            _label("Capacity", "karpenter.sh/capacity-type"),
            _label("Zone", "topology.kubernetes.io/zone"),
            _text("Node", ".status.nodeName"),
            _condition("Ready"),
            _AGE,
            _text("ImageID", ".status.imageID", priority=1),
            _text("ID", ".status.providerID", priority=1),
            _label("NodePool", "karpenter.sh/nodepool", priority=1),
            _text("NodeClass", ".spec.nodeClassRef.name", priority=1),
            _condition("Drifted", priority=1),
        ),
    ),
    Definition(
        kind=kind_of(NodeOverlay),
        short_names=("overlays",),
        columns=(_condition("Ready"), _AGE, _number("Weight", ".spec.weight", priority=1)),
    ),
    Definition(
        kind=kind_of(NodePool),
        scale=(".spec.replicas", ".status.nodes"),
        columns=(
            _text("NodeClass", ".spec.template.spec.nodeClassRef.name"),
            _number("Nodes", ".status.nodes"),
            _condition("Ready"),
            _AGE,
            _number("Weight", ".spec.weight", priority=1),
            _text("CPU", ".status.resources.cpu", priority=1),
            _text("Memory", ".status.resources.memory", priority=1),
        ),
    ),
)


def render(definition: Definition) -> dict[str, Any]:
    """Return the CustomResourceDefinition as plain data."""
    kind = definition.kind
    names = {
        "categories": list(definition.categories),
        "kind": kind.name,
        "listKind": f"{kind.name}List",
        "plural": kind.plural,
        "singular": kind.name.lower(),
    }
    if definition.short_names:
        names["shortNames"] = list(definition.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(definition)],
        },
    }


def _version(definition: Definition) -> dict[str, Any]:
    subresources: dict[str, Any] = {"status": {}}
    if definition.scale is not None:
        wanted, actual = definition.scale
        subresources["scale"] = {"specReplicasPath": wanted, "statusReplicasPath": actual}
    return {
        "name": definition.kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [msgspec.to_builtins(column) for column in definition.columns],
        "schema": {"openAPIV3Schema": object_schema(definition.kind.struct)},
        "subresources": subresources,
    }


def definition_of(kind: Kind) -> Definition | None:
    """Return the definition of a kind; none when the kind is not ours."""
    return next((each for each in DEFINITIONS if each.kind == kind), None)
