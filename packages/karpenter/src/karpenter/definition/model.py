"""
What a cluster definition holds, and its JSON schema for editors.

The keys are those of the cluster definitions that Skyscrapers documents, ``volumeSize`` and all; the
defaults and what is needed beside them are ours. Reading is in :mod:`.reading`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, field

DEFAULT_ALIAS: Final = "al2023@latest"
DEFAULT_EXPIRY: Final = "720h"
SCHEMA_URI: Final = "https://json-schema.org/draft/2020-12/schema"


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Anything in a definition; unknown keys are refused and defaults are not written."""


class BudgetDefinition(_Part, frozen=True, kw_only=True):
    """How many machines may be disrupted at once."""

    nodes: Annotated[str, Meta(description="A number of nodes or a share in percent.")] = "10%"
    schedule: Annotated[str, Meta(description="When it opens, as five cron fields in UTC.")] = ""
    duration: Annotated[str, Meta(description="For how long it stays open.")] = ""
    reasons: Annotated[
        list[str],
        Meta(description="What it limits: Underutilized, Empty or Drifted; all where none is named."),
    ] = field(default_factory=list)


class DisruptionDefinition(_Part, frozen=True, kw_only=True):
    """When machines may be replaced or removed."""

    consolidation_policy: Annotated[
        str, Meta(description="WhenEmpty, WhenEmptyOrUnderutilized or Balanced.")
    ] = "WhenEmptyOrUnderutilized"
    consolidate_after: Annotated[
        str, Meta(description="How long no pod must have come or gone, such as 1m, or Never.")
    ] = "1m"
    budgets: Annotated[list[BudgetDefinition], Meta(description="10% where none is stated.")] = field(
        default_factory=list
    )


class RequirementDefinition(_Part, frozen=True, kw_only=True):
    """A condition on one label of machines."""

    key: Annotated[str, Meta(description="The label, such as karpenter.k8s.aws/instance-category.")]
    operator: Annotated[str, Meta(description="In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte.")]
    values: Annotated[list[str], Meta(description="What the label is compared with.")] = field(
        default_factory=list
    )
    min_values: Annotated[int | None, Meta(description="How many values have to stay open.")] = None


class TaintDefinition(_Part, frozen=True, kw_only=True):
    """A taint of machines."""

    key: str
    effect: Annotated[str, Meta(description="NoSchedule, PreferNoSchedule or NoExecute.")]
    value: str = ""


class ClassDefinition(_Part, frozen=True, kw_only=True):
    """How machines of a pool are made: its EC2NodeClass."""

    name: Annotated[
        str, Meta(description="The name of the EC2NodeClass; that of the pool where none is given.")
    ] = ""
    role: Annotated[
        str, Meta(description="The IAM role of machines, where it is not that of the defaults.")
    ] = ""
    ami_alias: Annotated[str, Meta(description="The image, such as bottlerocket@latest.")] = ""
    extra_securitygroup_ids: Annotated[
        list[str], Meta(description="Security groups beside that of the cluster, by id.")
    ] = field(default_factory=list)
    gpu_enabled: Annotated[bool, Meta(description="Whether only machines with a GPU are bought.")] = False
    public: Annotated[
        bool, Meta(description="Whether machines are in public subnets and have public addresses.")
    ] = False
    tags: Annotated[dict[str, str], Meta(description="Tags of everything that is made.")] = field(
        default_factory=dict
    )
    volume_size: Annotated[str, Meta(description="The disk for pods and images, such as 100Gi.")] = field(
        name="volumeSize", default=""
    )
    spec: Annotated[
        dict[str, Any], Meta(description="Fields of the EC2NodeClass, as they are; null takes one away.")
    ] = field(default_factory=dict)


class PoolDefinition(_Part, frozen=True, kw_only=True):
    """A NodePool with its class."""

    limits: Annotated[
        dict[str, int | float | str],
        Meta(
            description="Ceilings on what the machines have together. Required: without them costs have none."
        ),
    ]
    requirements: Annotated[
        list[RequirementDefinition] | dict[str, RequirementDefinition],
        Meta(description="Conditions on machines, as a list or by a name of your own."),
    ] = field(default_factory=list)
    labels: Annotated[dict[str, str], Meta(description="Labels of nodes.")] = field(default_factory=dict)
    annotations: Annotated[dict[str, str], Meta(description="Annotations of nodes.")] = field(
        default_factory=dict
    )
    taints: Annotated[list[TaintDefinition], Meta(description="Taints of nodes.")] = field(
        default_factory=list
    )
    startup_taints: Annotated[
        list[TaintDefinition], Meta(description="Taints that something else takes away when a node is ready.")
    ] = field(default_factory=list)
    node_class: Annotated[ClassDefinition, Meta(description="How machines are made.")] = ClassDefinition()
    disruption: Annotated[
        DisruptionDefinition | None, Meta(description="When machines may be replaced or removed.")
    ] = None
    expire_after: Annotated[
        str, Meta(description="How old a machine may become, such as 720h, or Never.")
    ] = ""
    termination_grace_period: Annotated[
        str, Meta(description="After how long a machine goes, whatever its pods say.")
    ] = ""
    weight: Annotated[
        Annotated[int, Meta(ge=1, le=100)] | None,
        Meta(description="Which pool is tried first: the heaviest."),
    ] = None
    replicas: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="How many machines a static pool keeps.")
    ] = None


class DefinitionDefaults(_Part, frozen=True, kw_only=True):
    """What holds for every pool that does not say otherwise."""

    role: Annotated[
        str, Meta(description="The IAM role of machines; KarpenterNodeRole-CLUSTER unless given.")
    ] = ""
    ami_alias: Annotated[str, Meta(description="The image.")] = DEFAULT_ALIAS
    tags: Annotated[dict[str, str], Meta(description="Tags of everything that is made.")] = field(
        default_factory=dict
    )
    subnet_tags: Annotated[
        dict[str, str], Meta(description="Tags that subnets have beside that of their tier.")
    ] = field(default_factory=dict)
    security_group_tags: Annotated[
        dict[str, str], Meta(description="Tags of the security group, in place of the one that EKS makes.")
    ] = field(default_factory=dict)
    disruption: Annotated[
        DisruptionDefinition, Meta(description="When machines may be replaced or removed.")
    ] = DisruptionDefinition()
    expire_after: Annotated[str, Meta(description="How old a machine may become.")] = DEFAULT_EXPIRY


class KarpenterDefinition(_Part, frozen=True, kw_only=True):
    """Everything about Karpenter in a cluster."""

    cluster_name: Annotated[str, Meta(description="The name of the EKS cluster.")] = ""
    node_pools: Annotated[dict[str, PoolDefinition], Meta(description="NodePools by name.")]
    defaults: Annotated[DefinitionDefaults, Meta(description="What holds for every pool.")] = (
        DefinitionDefaults()
    )


class ClusterDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The file; keys of other tools beside ``karpenter`` are not looked at."""

    karpenter: KarpenterDefinition


def schema() -> dict[str, Any]:
    """Return the JSON schema of a cluster definition, for editors."""
    found = msgspec.json.schema(ClusterDefinition)
    definitions = found["$defs"]
    loose: dict[str, Any] = definitions["ClassDefinition"]["properties"]
    loose["volume_size"] = loose["volumeSize"]
    return {"$schema": SCHEMA_URI, "title": "Cluster definition", **found}
