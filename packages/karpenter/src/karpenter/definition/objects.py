"""
A cluster definition as NodePools and EC2NodeClasses, and these as a definition again.

Rendering what was imported gives the same objects; importing what was rendered gives the same definition,
in its usual form: requirements as a list, defaults left out. Whatever of a class a definition has no word
for is in ``node_class.spec``, so that every class can be imported.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

import msgspec

from karpenter.api.labels import ARCH, CAPACITY_TYPE, LINUX, ON_DEMAND, OS
from karpenter.definition.model import (
    BudgetDefinition,
    ClassDefinition,
    ClusterDefinition,
    DisruptionDefinition,
    KarpenterDefinition,
    PoolDefinition,
    RequirementDefinition,
    TaintDefinition,
)

GROUP: Final = "karpenter.k8s.aws"
KIND: Final = "EC2NodeClass"
_CLUSTER_TAG: Final = "aws:eks:cluster-name"
_GPU: Final = RequirementDefinition(key="karpenter.k8s.aws/instance-gpu-count", operator="Gt", values=["0"])
_DEFAULTS: Final = (
    RequirementDefinition(key=OS, operator="In", values=[LINUX]),
    RequirementDefinition(key=ARCH, operator="In", values=["amd64"]),
    RequirementDefinition(key=CAPACITY_TYPE, operator="In", values=[ON_DEMAND]),
)
"""Requirements of a pool that names none for these labels."""

# Which subnets are public: https://docs.aws.amazon.com/eks/latest/userguide/network-load-balancing.html
_PUBLIC_TAG: Final = "kubernetes.io/role/elb"
_PRIVATE_TAG: Final = "kubernetes.io/role/internal-elb"
_BOTTLEROCKET: Final = "bottlerocket"


class DefinitionError(ValueError):
    """A definition, or objects, that cannot be turned into the other; the message is one sentence."""


def render_definition(definition: ClusterDefinition, *, cluster_name: str = "") -> list[dict[str, Any]]:
    """
    Return the NodePool and the EC2NodeClass of every pool.

    Raises:
        DefinitionError: the name of the cluster is needed and missing, or two pools differ about a class.
    """
    karpenter = definition.karpenter
    if cluster_name:
        karpenter = msgspec.structs.replace(karpenter, cluster_name=cluster_name)
    found: list[dict[str, Any]] = []
    classes: dict[str, dict[str, Any]] = {}
    for name, pool in karpenter.node_pools.items():
        found.append(render_pool(name, pool, karpenter))
        made = render_class(name, pool.node_class, karpenter)
        known = classes.setdefault(made["metadata"]["name"], made)
        if known != made:
            raise DefinitionError(
                f"karpenter.node_pools.{name}.node_class: EC2NodeClass {made['metadata']['name']} is defined "
                "otherwise by another pool"
            )
        if known is made:
            found.append(made)
    return found


def render_pool(name: str, pool: PoolDefinition, karpenter: KarpenterDefinition) -> dict[str, Any]:
    requirements = all_requirements(pool)
    inner: dict[str, Any] = _filled(
        {
            "taints": [_taint(t) for t in pool.taints],
            "startupTaints": [_taint(t) for t in pool.startup_taints],
        }
    )
    inner["requirements"] = [_requirement(each) for each in requirements]
    inner["nodeClassRef"] = {"group": GROUP, "kind": KIND, "name": pool.node_class.name or name}
    inner["expireAfter"] = pool.expire_after or karpenter.defaults.expire_after
    inner |= _filled({"terminationGracePeriod": pool.termination_grace_period})
    template = _filled({"metadata": _filled({"labels": pool.labels, "annotations": pool.annotations})})
    spec: dict[str, Any] = {
        "template": {**template, "spec": inner},
        "disruption": _disruption(pool.disruption or karpenter.defaults.disruption),
        "limits": {resource: str(amount) for resource, amount in pool.limits.items()},
    }
    spec |= {
        key: value
        for key, value in (("weight", pool.weight), ("replicas", pool.replicas))
        if value is not None
    }
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}


def all_requirements(pool: PoolDefinition) -> list[RequirementDefinition]:
    """Return the requirements of a pool with those that go without saying."""
    given = pool.requirements
    found = list(given.values()) if isinstance(given, dict) else list(given)
    named = {each.key for each in found}
    if pool.node_class.gpu_enabled and _GPU.key not in named:
        found.append(_GPU)
    return [*found, *(each for each in _DEFAULTS if each.key not in named)]


def render_class(pool: str, node_class: ClassDefinition, karpenter: KarpenterDefinition) -> dict[str, Any]:
    defaults, cluster = karpenter.defaults, karpenter.cluster_name
    role = node_class.role or defaults.role or (f"KarpenterNodeRole-{cluster}" if cluster else "")
    groups = defaults.security_group_tags or ({_CLUSTER_TAG: cluster} if cluster else {})
    overridden = node_class.spec.keys()
    if not role and not {"role", "instanceProfile"} & overridden:
        raise DefinitionError(
            "karpenter.cluster_name: is needed to name the role of machines, or defaults.role is"
        )
    if not groups and "securityGroupSelectorTerms" not in overridden:
        raise DefinitionError(
            "karpenter.cluster_name: is needed to find the security group, or "
            "defaults.security_group_tags are"
        )
    alias = node_class.ami_alias or defaults.ami_alias
    tier = {_PUBLIC_TAG if node_class.public else _PRIVATE_TAG: "1"}
    spec: dict[str, Any] = {
        "amiSelectorTerms": [{"alias": alias}],
        "role": role or None,
        "subnetSelectorTerms": [{"tags": {**tier, **defaults.subnet_tags}}],
        "securityGroupSelectorTerms": [
            *([{"tags": groups}] if groups else []),
            *({"id": each} for each in node_class.extra_securitygroup_ids),
        ],
    }
    if node_class.public:
        spec["associatePublicIPAddress"] = True
    spec |= _filled({"tags": {**defaults.tags, **node_class.tags}})
    if node_class.volume_size:
        spec["blockDeviceMappings"] = _disks(node_class.volume_size, alias)
    spec |= node_class.spec
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": KIND,
        "metadata": {"name": node_class.name or pool},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def _disks(size: str, alias: str) -> list[dict[str, Any]]:
    if alias.partition("@")[0] == _BOTTLEROCKET:
        return [_disk("/dev/xvda", "4Gi"), {**_disk("/dev/xvdb", size), "rootVolume": True}]
    return [{**_disk("/dev/xvda", size), "rootVolume": True}]


def _disk(device: str, size: str) -> dict[str, Any]:
    return {"deviceName": device, "ebs": {"volumeSize": size, "volumeType": "gp3", "encrypted": True}}


def _disruption(disruption: DisruptionDefinition) -> dict[str, Any]:
    budgets = [
        _filled({"nodes": b.nodes, "schedule": b.schedule, "duration": b.duration, "reasons": b.reasons})
        for b in disruption.budgets
    ]
    return {
        "consolidationPolicy": disruption.consolidation_policy,
        "consolidateAfter": disruption.consolidate_after,
        **_filled({"budgets": budgets}),
    }


def _requirement(requirement: RequirementDefinition) -> dict[str, Any]:
    found: dict[str, Any] = {"key": requirement.key, "operator": requirement.operator}
    found |= _filled({"values": list(requirement.values)})
    return found | ({"minValues": requirement.min_values} if requirement.min_values is not None else {})


def _taint(taint: TaintDefinition) -> dict[str, Any]:
    return _filled({"key": taint.key, "value": taint.value, "effect": taint.effect})


def _filled(plain: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plain.items() if value}


def import_definition(objects: list[dict[str, Any]], *, cluster_name: str = "") -> ClusterDefinition:
    """
    Return the definition that renders to these NodePools and EC2NodeClasses.

    Raises:
        DefinitionError: a pool names a class that is not there, or of another provider.
    """
    classes = {each["metadata"]["name"]: each for each in objects if each.get("kind") == KIND}
    cluster = cluster_name or next((name for each in classes.values() if (name := _cluster_of(each))), "")
    karpenter = KarpenterDefinition(node_pools={}, cluster_name=cluster)
    pools: dict[str, PoolDefinition] = {}
    for each in objects:
        if each.get("kind") == "NodePool":
            pools[each["metadata"]["name"]] = _import_pool(each, classes, karpenter)
    return ClusterDefinition(karpenter=msgspec.structs.replace(karpenter, node_pools=pools))


def _cluster_of(node_class: dict[str, Any]) -> str:
    for term in node_class.get("spec", {}).get("securityGroupSelectorTerms") or []:
        if _CLUSTER_TAG in (term.get("tags") or {}):
            return str(term["tags"][_CLUSTER_TAG])
    return ""


def _import_pool(
    plain: dict[str, Any], classes: dict[str, dict[str, Any]], karpenter: KarpenterDefinition
) -> PoolDefinition:
    name, spec = plain["metadata"]["name"], plain["spec"]
    template, inner = spec["template"], spec["template"]["spec"]
    reference = inner["nodeClassRef"]
    if reference.get("kind", KIND) != KIND or reference["name"] not in classes:
        raise DefinitionError(
            f"NodePool {name}: its {reference.get('kind', KIND)} {reference['name']} is not among the objects"
        )
    metadata = template.get("metadata") or {}
    requirements, gpu = _import_requirements(inner.get("requirements") or [])
    disruption = _import_disruption(spec.get("disruption") or {})
    expiry = inner.get("expireAfter", karpenter.defaults.expire_after)
    return PoolDefinition(
        limits={key: _amount(value) for key, value in (spec.get("limits") or {}).items()},
        requirements=requirements,
        labels=dict(metadata.get("labels") or {}),
        annotations=dict(metadata.get("annotations") or {}),
        taints=[_import_taint(each) for each in inner.get("taints") or []],
        startup_taints=[_import_taint(each) for each in inner.get("startupTaints") or []],
        node_class=_import_class(name, classes[reference["name"]], karpenter, gpu=gpu),
        disruption=None if disruption == karpenter.defaults.disruption else disruption,
        expire_after="" if expiry == karpenter.defaults.expire_after else expiry,
        termination_grace_period=inner.get("terminationGracePeriod") or "",
        weight=spec.get("weight"),
        replicas=spec.get("replicas"),
    )


def _amount(value: Any) -> int | float | str:
    text = str(value)
    return int(text) if re.fullmatch(r"0|[1-9][0-9]{0,15}", text) else text


def _import_requirements(plain: list[dict[str, Any]]) -> tuple[list[RequirementDefinition], bool]:
    """Return requirements without those that go without saying, and whether one of these asks for a GPU."""
    found = [
        RequirementDefinition(
            key=each["key"],
            operator=each["operator"],
            values=[str(value) for value in each.get("values") or []],
            min_values=each.get("minValues"),
        )
        for each in plain
    ]
    last = len(_DEFAULTS)
    while found and found[-1] in _DEFAULTS[:last]:
        last = _DEFAULTS.index(found.pop())
    gpu = bool(found) and found[-1] == _GPU
    return (found[:-1] if gpu else found), gpu


def _import_taint(plain: dict[str, Any]) -> TaintDefinition:
    return TaintDefinition(key=plain["key"], effect=plain.get("effect", ""), value=plain.get("value") or "")


def _import_disruption(plain: dict[str, Any]) -> DisruptionDefinition:
    budgets = [
        BudgetDefinition(
            nodes=str(each.get("nodes", "10%")),
            schedule=each.get("schedule") or "",
            duration=each.get("duration") or "",
            reasons=list(each.get("reasons") or []),
        )
        for each in plain.get("budgets") or []
    ]
    return DisruptionDefinition(
        consolidation_policy=plain.get("consolidationPolicy", "WhenEmptyOrUnderutilized"),
        consolidate_after=plain.get("consolidateAfter", "0s"),
        budgets=[] if budgets == [BudgetDefinition()] else budgets,
    )


def _import_class(
    pool: str, plain: dict[str, Any], karpenter: KarpenterDefinition, *, gpu: bool
) -> ClassDefinition:
    spec, name = plain["spec"], plain["metadata"]["name"]
    terms = spec.get("amiSelectorTerms") or []
    alias = str(terms[0]["alias"]) if len(terms) == 1 and set(terms[0]) == {"alias"} else ""
    role = str(spec.get("role") or "")
    usual = f"KarpenterNodeRole-{karpenter.cluster_name}" if karpenter.cluster_name else ""
    groups = spec.get("securityGroupSelectorTerms") or []
    found = ClassDefinition(
        name="" if name == pool else name,
        role="" if role == usual else role,
        ami_alias="" if alias == karpenter.defaults.ami_alias else alias,
        extra_securitygroup_ids=[each["id"] for each in groups[1:] if set(each) == {"id"}],
        gpu_enabled=gpu,
        public=spec.get("associatePublicIPAddress") is True,
        tags=dict(spec.get("tags") or {}),
        volume_size=_volume_of(spec, alias or karpenter.defaults.ami_alias),
    )
    rest = _rest(spec, found, pool, karpenter)
    return msgspec.structs.replace(found, spec=rest)


def _rest(
    spec: dict[str, Any], found: ClassDefinition, pool: str, karpenter: KarpenterDefinition
) -> dict[str, Any]:
    """Return the fields of a class that the definition so far does not render."""
    stated = msgspec.structs.replace(found, spec={"role": None, "securityGroupSelectorTerms": None})
    rendered = render_class(pool, stated, karpenter)["spec"]
    with suppress(DefinitionError):  # what is missing then is stated in full below
        rendered = render_class(pool, found, karpenter)["spec"]
    rest = {key: value for key, value in spec.items() if rendered.get(key) != value}
    return rest | {key: None for key in rendered if key not in spec}


def _volume_of(spec: dict[str, Any], alias: str) -> str:
    disks = spec.get("blockDeviceMappings") or []
    size = str((disks[-1].get("ebs") or {}).get("volumeSize") or "") if disks else ""
    return size if size and disks == _disks(size, alias) else ""
