"""
What a cluster definition holds, and its JSON schema for editors.

The keys are those of the cluster definitions that Skyscrapers documents, ``volumeSize`` and all; the
defaults and what is needed beside them are ours.

Reading tells every problem at once, with the key that was probably meant. Keys may be written in snake_case
or camelCase; values of labels that are always lower case, and operators, may be written in any case. What is
not in the usual spelling is a warning, what cannot be meant is a problem.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta, field

from karpenter.api.labels import ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, REGION, ZONE
from karpenter.api.meta import explain
from karpenter.api.nodeclaim import OPERATORS
from karpenter.base.quantity import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_ALIAS: Final = "al2023@latest"
DEFAULT_EXPIRY: Final = "720h"
SCHEMA_URI: Final = "https://json-schema.org/draft/2020-12/schema"


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Anything in a definition; unknown keys are refused and defaults are not written."""


class BudgetDefinition(_Part, frozen=True, kw_only=True):
    """Limit on the machines that are disrupted at once."""

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
    """The EC2NodeClass of a pool."""

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
    """Settings of every pool that does not set them itself."""

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
    found = msgspec.json.schema(ClusterDefinition)
    definitions = found["$defs"]
    loose: dict[str, Any] = definitions["ClassDefinition"]["properties"]
    loose["volume_size"] = loose["volumeSize"]
    return {"$schema": SCHEMA_URI, "title": "Cluster definition", **found}


_LOWER_CASE: Final = frozenset(
    {
        ARCH,
        CAPACITY_TYPE,
        INSTANCE_TYPE,
        OS,
        REGION,
        ZONE,
        *(
            f"karpenter.k8s.aws/instance-{name}"
            for name in (
                "category",
                "family",
                "size",
                "hypervisor",
                "cpu-manufacturer",
                "gpu-manufacturer",
                "gpu-name",
            )
        ),
    }
)
"""Labels whose values are always lower case."""

_LEAST_MEMORY: Final = 1024**2
_BOTH_WAYS: Final = frozenset({"volume_size"})
"""Keys whose other spelling is as usual as theirs."""


class ReadDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A definition, what is wrong with it, and what is only unusual."""

    definition: ClusterDefinition | None = None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def read_definition(plain: Any) -> ReadDefinition:
    """Return what a document says; without a definition where something is wrong."""
    reader = _DefinitionReader()
    root = plain.get("spec") if isinstance(plain, dict) and "karpenter" not in plain else plain
    if not isinstance(root, dict) or not isinstance(root.get("karpenter"), dict):
        problem = "karpenter: is missing: a cluster definition has karpenter.node_pools with a pool by name"
        return ReadDefinition(problems=(problem,))
    section = reader.keys(root["karpenter"], KarpenterDefinition, "karpenter")
    reader.pools(section)
    if reader.problems:
        return ReadDefinition(problems=tuple(reader.problems), warnings=tuple(reader.warnings))
    try:
        definition = msgspec.convert({"karpenter": section}, ClusterDefinition)
    except msgspec.ValidationError as error:
        place, problem = explain(str(error))
        return ReadDefinition(problems=(f"{place}: {problem}",), warnings=tuple(reader.warnings))
    return ReadDefinition(definition=definition, warnings=tuple(reader.warnings))


_INSIDE: Final[dict[tuple[type, str], type]] = {
    (KarpenterDefinition, "defaults"): DefinitionDefaults,
    (DefinitionDefaults, "disruption"): DisruptionDefinition,
    (PoolDefinition, "disruption"): DisruptionDefinition,
    (PoolDefinition, "node_class"): ClassDefinition,
    (PoolDefinition, "requirements"): RequirementDefinition,
    (PoolDefinition, "taints"): TaintDefinition,
    (PoolDefinition, "startup_taints"): TaintDefinition,
    (DisruptionDefinition, "budgets"): BudgetDefinition,
}


class _DefinitionReader:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self.warnings: list[str] = []

    def keys(self, plain: Any, part: type, place: str) -> Any:
        """Return a mapping with the keys of a part of the definition in their usual spelling."""
        if not isinstance(plain, dict):
            self.problems.append(f"{place}: is {_type(plain)}, and a mapping is needed")
            return {}
        fields = {each.name: each.encode_name for each in msgspec.structs.fields(part)}
        folded = {_fold(name): name for name in fields}
        found: dict[str, Any] = {}
        for key, value in plain.items():
            if value is None:
                continue  # as in Kubernetes, null is as good as absent
            name = folded.get(_fold(key))
            if name is None:
                begun = [each for each in fields if each.startswith(key)]
                close = begun or difflib.get_close_matches(key, fields, n=1)
                hint = (
                    f"did you mean {fields[close[0]]}?"
                    if close
                    else f"allowed are {', '.join(fields.values())}"
                )
                self.problems.append(f"{place}.{key}: unknown key; {hint}")
                continue
            encoded = fields[name]
            if key != encoded and name not in _BOTH_WAYS:
                self.warnings.append(f"{place}.{key}: is {encoded} as others write it")
            if encoded in found:
                self.problems.append(f"{place}.{key}: is there twice, as {encoded}")
            inner = _INSIDE.get((part, name))
            found[encoded] = (
                value if inner is None else self._inside(value, inner, f"{place}.{encoded}", part)
            )
        return found

    def _inside(self, value: Any, inner: type, place: str, part: type) -> Any:
        if isinstance(value, list):
            return [self.keys(each, inner, f"{place}[{number}]") for number, each in enumerate(value)]
        if inner is RequirementDefinition and isinstance(value, dict) and part is PoolDefinition:
            return {name: self.keys(each, inner, f"{place}.{name}") for name, each in value.items()}
        return self.keys(value, inner, place)

    def pools(self, section: dict[str, Any]) -> None:
        pools = section.get("node_pools")
        if not isinstance(pools, dict) or not pools:
            self.problems.append("karpenter.node_pools: needs at least one pool, by its name")
            return
        section["node_pools"] = read = dict(pools)
        for name, plain in pools.items():
            place = f"karpenter.node_pools.{name}"
            pool = self.keys(plain, PoolDefinition, place)
            read[name] = pool
            self._limits(pool, place)
            for where, requirement in _requirements_of(pool):
                self._requirement(requirement, f"{place}.{where}")

    def _limits(self, pool: dict[str, Any], place: str) -> None:
        limits = pool.get("limits")
        if not isinstance(limits, dict) or not limits:
            self.problems.append(
                f"{place}.limits: is required, since without limits a pool may cost any amount; such as "
                "{cpu: 100, memory: 400Gi}"
            )
            return
        for name, value in limits.items():
            try:
                amount = parse_quantity(value)
            except QuantityError as error:
                self.problems.append(f"{place}.limits.{name}: {error}")
                continue
            if name == "memory" and amount.milli < _LEAST_MEMORY * 1000:
                self.problems.append(
                    f"{place}.limits.memory: {value} is in bytes; write a unit, such as {value}Gi"
                )

    def _requirement(self, requirement: dict[str, Any], place: str) -> None:
        operator, values = requirement.get("operator"), requirement.get("values")
        if isinstance(operator, str) and operator not in OPERATORS:
            meant = {each.lower(): each for each in OPERATORS}.get(operator.lower())
            if meant is not None:
                self.warnings.append(f"{place}.operator: {operator} is {meant}")
                requirement["operator"] = meant
        if isinstance(values, list):
            requirement["values"] = [self._value(each, requirement.get("key"), place) for each in values]

    def _value(self, value: Any, key: Any, place: str) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, str) and str(key) in _LOWER_CASE and value != value.lower():
            self.warnings.append(
                f"{place}.values: {value} is {value.lower()}: values of {key} are lower case"
            )
            return value.lower()
        return value


def _requirements_of(pool: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    found = pool.get("requirements")
    pairs = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for name, each in pairs:
        if isinstance(each, dict):
            yield (f"requirements.{name}" if isinstance(found, dict) else f"requirements[{name}]"), each


def _fold(key: str) -> str:
    return re.sub(r"[_-]", "", str(key)).lower()


def _type(value: Any) -> str:
    return {str: "text", list: "a list", bool: "true or false"}.get(type(value), "a number")
