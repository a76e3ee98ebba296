"""
What an add-on consists of: props and facts of the cluster in, resources, chart values and objects out.

Pure: no CDK. Roles, policies, queue and rules are those of the installation plan, from which `karpenter
install` works too; here they are only made to fit older versions of Karpenter. Facts may hold tokens of CDK
in the place of names that CloudFormation knows first; :mod:`.constructs` turns the result into constructs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.kinds import KINDS
from karpenter.api.validation.objects import check_object
from karpenter.cdk.props import SERVICE_ACCOUNT, KarpenterProps, KarpenterV1Props
from karpenter.cdk.rules import (
    BETA_SINCE,
    KARPENTER_V1,
    STABLE_SINCE,
    AddOnError,
    Version,
    chart_version,
    fargate_values,
    v1_version,
    version_of,
)
from karpenter.chart.values import BadValue, values_of
from karpenter.convert.cdk import convert_props, provisioner_of
from karpenter.convert.documents import OldDocument, convert_documents
from karpenter.convert.findings import ERROR, WARN, ConversionFinding, ConversionOptions, without_empty
from karpenter.doctor.installation import OCI, QUEUE_SINCE
from karpenter.install.documents import EC2_GROUP, EVENTS_OF_1_0, ROLE_ANNOTATION, VERSION
from karpenter.install.options import (
    NAMESPACES_OF_KUBERNETES,
    InstallationError,
    InstallationFacts,
    InstallationNames,
    InstallationOptions,
)
from karpenter.install.plan import make_plan
from karpenter.install.resources import (
    AwsAuthMapping,
    EksAccessEntry,
    EksPodIdentityAssociation,
    EventBridgeRule,
    IamInstanceProfile,
    IamPolicy,
    IamRole,
    Json,
    ServiceLinkedRole,
    SqsQueue,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


Plain = dict[str, Any]

_TOKEN: Final = re.compile(r"\$\{Token\[[^\]]*\]\}")
"""How CDK writes a value into a text that CloudFormation knows first."""

_FIFTH_RULE_SINCE: Final[Version] = (1, 1, 0)
_CLUSTER_TAG: Final = "aws:RequestTag/eks:eks-cluster-name"

# What Karpenter was allowed before its policies were scoped by tags, which its instances did not carry yet.
# https://karpenter.sh/v0.25.0/getting-started/getting-started-with-karpenter/
_ALPHA_ACTIONS: Final = (
    "ec2:CreateFleet",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateTags",
    "ec2:DeleteLaunchTemplate",
    "ec2:DescribeAvailabilityZones",
    "ec2:DescribeImages",
    "ec2:DescribeInstanceTypeOfferings",
    "ec2:DescribeInstanceTypes",
    "ec2:DescribeInstances",
    "ec2:DescribeLaunchTemplates",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSpotPriceHistory",
    "ec2:DescribeSubnets",
    "ec2:RunInstances",
    "ec2:TerminateInstances",
    "pricing:GetProducts",
    "ssm:GetParameter",
)
_QUEUE_ACTIONS: Final = (
    "sqs:DeleteMessage",
    "sqs:GetQueueAttributes",
    "sqs:GetQueueUrl",
    "sqs:ReceiveMessage",
)
_INTERRUPTION: Final = "KarpenterControllerInterruptionPolicy-"
_DISCOVERY: Final = "KarpenterControllerResourceDiscoveryPolicy-"

# https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html#cni-iam-role-create-ipv6-policy
_IPV6_ACTIONS: Final = (
    "ec2:AssignIpv6Addresses",
    "ec2:DescribeInstances",
    "ec2:DescribeTags",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeInstanceTypes",
)
_METADATA: Final[Mapping[str, Any]] = {
    "httpEndpoint": "enabled",
    "httpProtocolIPv6": "disabled",
    "httpPutResponseHopLimit": 2,
    "httpTokens": "required",
}
_TERMS: Final = {
    "subnetSelectorTerms": "subnet-0",
    "securityGroupSelectorTerms": "sg-0",
    "amiSelectorTerms": "ami-0",
    "capacityReservationSelectorTerms": "cr-0",
}
"""Selectors, and an id that each takes."""

POOL: Final = "default-nodepool"
NODE_CLASS: Final = "default-ec2nodeclass"
_POOL_FIELDS: Final = ("labels", "annotations", "taints", "startupTaints", "requirements")


class AccountPart(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that an add-on makes in the account."""

    names: InstallationNames
    service_account: str
    node_role: IamRole
    instance_profile: IamInstanceProfile
    policies: tuple[IamPolicy, ...]
    controller_role: IamRole
    access: EksAccessEntry | AwsAuthMapping
    queue: SqsQueue | None = None
    rules: tuple[EventBridgeRule, ...] = ()
    linked_role: ServiceLinkedRole | None = None
    """Set where the account's role for EC2 Spot is made."""

    association: EksPodIdentityAssociation | None = None
    """Set where pods get the role by EKS Pod Identity."""


class AddOnReferences(msgspec.Struct, frozen=True, kw_only=True):
    """Names in the account that Kubernetes objects refer to, or tokens that stand for them."""

    cluster: str
    endpoint: str
    controller_role: str
    """Its ARN."""

    node_role: str
    """Its name."""

    instance_profile: str
    service_account: str = SERVICE_ACCOUNT
    queue: str = ""
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    ipv6: bool = False
    fargate: bool = False


class ChartPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a chart comes from."""

    chart: str = "karpenter"
    repository: str = ""
    """Empty means the chart of this project."""

    version: str = ""


class ClusterPart(msgspec.Struct, frozen=True, kw_only=True):
    """Objects that an add-on makes in the cluster, in order."""

    namespace: str
    release: str
    before: tuple[Json, ...]
    """Objects that the chart needs."""

    chart: ChartPlace
    values: Json
    objects: tuple[Json, ...] = ()
    """Node classes, then pools."""

    warnings: tuple[str, ...] = ()


def account_part(
    facts: InstallationFacts,
    *,
    version: Version,
    namespace: str,
    interruption: bool,
    pod_identity: bool,
    service_account: str = SERVICE_ACCOUNT,
    linked_role: bool = False,
    ipv6: bool = False,
) -> AccountPart:
    """
    Return what is made in the account.

    Raises:
        AddOnError: it cannot be done with this cluster.
    """
    options = InstallationOptions(
        cluster=facts.cluster,
        namespace=namespace,
        service_account=service_account,
        identity="pod-identity" if pod_identity else "irsa",
    )
    try:
        plan = make_plan(options, facts)
    except InstallationError as error:
        raise AddOnError(str(error), hint=error.hint) from error
    found = plan.resources

    def each(kind: type[Any]) -> list[Any]:
        return [resource for resource in found if isinstance(resource, kind)]

    roles = {role.name: role for role in each(IamRole)}
    node, controller = roles[plan.names.node_role], roles[plan.names.controller_role]
    [queue] = each(SqsQueue)
    policies = tuple(_fitting(each(IamPolicy), version, node=node, queue=queue if interruption else None))
    [access] = [*each(EksAccessEntry), *each(AwsAuthMapping)]
    read = {event.name for event in EVENTS_OF_1_0}
    rules = [
        rule
        for rule in each(EventBridgeRule)
        if version >= _FIFTH_RULE_SINCE or rule.resource.removesuffix("Rule") in read
    ]
    return AccountPart(
        names=plan.names,
        service_account=service_account,
        node_role=msgspec.structs.replace(node, inline=_ipv6(facts.partition)) if ipv6 else node,
        instance_profile=each(IamInstanceProfile)[0],
        policies=policies,
        controller_role=msgspec.structs.replace(
            controller, attached=tuple(policy.arn for policy in policies)
        ),
        access=access,
        queue=queue if interruption else None,
        rules=tuple(rules) if interruption else (),
        linked_role=each(ServiceLinkedRole)[0] if linked_role else None,
        association=next(iter(each(EksPodIdentityAssociation)), None),
    )


def _fitting(
    planned: list[IamPolicy], version: Version, *, node: IamRole, queue: SqsQueue | None
) -> Iterator[IamPolicy]:
    """Yield the policies of the plan, as far as an older operator can work with them."""
    if version < BETA_SINCE:
        first = planned[0]
        name = first.name.replace("NodeLifecyclePolicy", "Policy")
        yield IamPolicy(
            name=name, arn=first.arn.removesuffix(first.name) + name, document=_alpha_document(node, queue)
        )
        return
    for policy in planned:
        if policy.name.startswith(_INTERRUPTION) and queue is None:
            continue
        document = policy.document
        if version < STABLE_SINCE:
            document = _beta_document(policy)
        yield msgspec.structs.replace(policy, document=document)


def _alpha_document(node: IamRole, queue: SqsQueue | None) -> Plain:
    statements: list[Plain] = [
        {"Sid": "Karpenter", "Effect": "Allow", "Action": list(_ALPHA_ACTIONS), "Resource": "*"},
        {
            "Sid": "AllowPassingInstanceRole",
            "Effect": "Allow",
            "Action": "iam:PassRole",
            "Resource": node.arn,
        },
    ]
    if queue is not None:
        actions = list(_QUEUE_ACTIONS)
        statements.append(
            {
                "Sid": "AllowInterruptionQueueActions",
                "Effect": "Allow",
                "Action": actions,
                "Resource": queue.arn,
            }
        )
    return {"Version": VERSION, "Statement": statements}


def _beta_document(policy: IamPolicy) -> Plain:
    """
    Return a document for versions from 0.32 until before 1.0.

    They did not tag what they made with ``eks:eks-cluster-name``, and asked for zones and for attributes of
    the queue. https://karpenter.sh/v0.37/reference/cloudformation/
    """
    document: Plain = msgspec.json.decode(msgspec.json.encode(policy.document))
    for statement in document["Statement"]:
        for keys in statement.get("Condition", {}).values():
            keys.pop(_CLUSTER_TAG, None)
        if "Condition" in statement:
            statement["Condition"] = without_empty(statement["Condition"])
        if policy.name.startswith(_DISCOVERY) and statement["Sid"] == "AllowRegionalReadActions":
            statement["Action"].append("ec2:DescribeAvailabilityZones")
        if policy.name.startswith(_INTERRUPTION):
            statement["Action"] = list(_QUEUE_ACTIONS)
    return document


def _ipv6(partition: str) -> dict[str, Plain]:
    return {
        "AmazonEKS_CNI_IPv6_Policy": {
            "Version": VERSION,
            "Statement": [
                {"Effect": "Allow", "Action": list(_IPV6_ACTIONS), "Resource": "*"},
                {
                    "Effect": "Allow",
                    "Action": "ec2:CreateTags",
                    "Resource": f"arn:{partition}:ec2:*:*:network-interface/*",
                },
            ],
        }
    }


def legacy_part(props: KarpenterProps, made: AddOnReferences) -> ClusterPart:
    """
    Return what the legacy add-on makes in the cluster.

    Raises:
        AddOnError: the props cannot become objects of their version.
    """
    version = version_of(props.stated_version)
    objects, warnings = _legacy_objects(props, version, made)
    return ClusterPart(
        namespace=props.stated_namespace,
        release=props.release,
        before=_before(props.stated_namespace, made, pod_identity=props.pod_identity),
        chart=ChartPlace(
            chart=props.chart,
            repository=OCI if props.repository is None else props.repository,
            version=chart_version(props.stated_version),
        ),
        values=_values(
            props.values, _settings(version, made), version, made, pod_identity=props.pod_identity
        ),
        objects=tuple(objects),
        warnings=tuple(warnings),
    )


def _before(namespace: str, made: AddOnReferences, *, pod_identity: bool) -> tuple[Json, ...]:
    found: list[Plain] = []
    if namespace not in NAMESPACES_OF_KUBERNETES:
        found.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    if not pod_identity:
        found.append(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {
                    "name": made.service_account,
                    "namespace": namespace,
                    "annotations": {ROLE_ANNOTATION: made.controller_role},
                },
            }
        )
    return tuple(found)


def _settings(version: Version, made: AddOnReferences) -> Plain:
    """Return what the operator is told of its cluster, where charts of the version look for it."""
    cluster = {"clusterName": made.cluster, "clusterEndpoint": made.endpoint}
    if version >= BETA_SINCE:
        return {"settings": {**cluster, "interruptionQueue": made.queue}}
    profile = {"defaultInstanceProfile": made.instance_profile}
    if version >= QUEUE_SINCE:
        return {"settings": {"aws": {**cluster, **profile, "interruptionQueueName": made.queue}}}
    return {**cluster, "aws": profile}


def _values(
    given: Json, settings: Plain, version: Version, made: AddOnReferences, *, pod_identity: bool
) -> Plain:
    values = {**fargate_values(version, fargate=made.fargate), **settings}
    _merge(values, given)
    account: Plain = {
        **values.get("serviceAccount", {}),
        "create": pod_identity,
        "name": made.service_account,
    }
    if not pod_identity:
        account["annotations"] = {**account.get("annotations", {}), ROLE_ANNOTATION: made.controller_role}
    return {**values, "serviceAccount": account}


def _merge(values: Plain, given: Json) -> None:
    """Lay values over others, level by level; nothing that was given is kept or changed."""
    for key, value in given.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            _merge(values[key], value)
        else:
            values[key] = msgspec.json.decode(msgspec.json.encode(value))


def _legacy_objects(
    props: KarpenterProps, version: Version, made: AddOnReferences
) -> tuple[list[Plain], list[str]]:
    if props.node_pool_spec is not None:
        specs = [*_legacy_specs(props.node_pool_spec, props.ec2_node_class_spec, version, made)]
        if version < STABLE_SINCE:
            return specs, []
        converted = convert_documents(
            [OldDocument(plain=each) for each in specs], ConversionOptions(node_role=made.node_role)
        )
        findings = [finding for each in converted for finding in each.findings]
        return [plain for each in converted for plain in each.plains], _warned(findings)
    if not props.has_flat:
        return [], []
    if version < BETA_SINCE:
        provisioner = provisioner_of(props.flat)
        return [{"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", **provisioner}], []
    return converted_props(props, node_role=made.node_role)


def converted_props(props: KarpenterProps, *, node_role: str) -> tuple[list[Plain], list[str]]:
    """
    Return the EC2NodeClass and the NodePool that flat props become, and what changes by that.

    Raises:
        AddOnError: something has no counterpart.
    """
    outcome = convert_props(props.flat, ConversionOptions(node_role=node_role), profile="")
    if outcome is None or not props.has_flat:
        return [], []
    return [each.plain for each in reversed(outcome.documents)], _warned(outcome.findings)


def _warned(findings: Iterable[ConversionFinding]) -> list[str]:
    for each in findings:
        if each.level == ERROR:
            raise AddOnError(f"{each.field or 'props'}: {each.message}")
    return [
        f"{each.field}: {each.message}" if each.field else each.message
        for each in findings
        if each.level == WARN
    ]


def _legacy_specs(
    pool: Plain, node_class: Plain | None, version: Version, made: AddOnReferences
) -> Iterator[Plain]:
    """Yield the class and the pool as versions before 1.0 read them."""
    identity = {"role": made.node_role} if version >= BETA_SINCE else {}
    if node_class is not None:
        spec = without_empty({"metadataOptions": _metadata(made), **identity, **node_class})
        if "instanceProfile" in spec:
            spec.pop("role", None)
        kind, api, name = "EC2NodeClass", "v1beta1", NODE_CLASS
        if version < BETA_SINCE:
            kind, api, name = "AWSNodeTemplate", "v1alpha1", "default-nodetemplate"
            spec = {"amiFamily": "AL2", **spec}
        yield _object(f"{EC2_GROUP}/{api}", kind, name, spec)
    if version >= BETA_SINCE:
        reference = {"apiVersion": f"{EC2_GROUP}/v1beta1", "kind": "EC2NodeClass", "name": NODE_CLASS}
        yield _object("karpenter.sh/v1beta1", "NodePool", POOL, _pool_spec(pool, reference))
        return
    spec = {key: pool[key] for key in (*_POOL_FIELDS, "consolidation", "weight") if pool.get(key) is not None}
    spec |= {key: value for key, value in pool.items() if key.startswith("ttlSeconds") and value is not None}
    if pool.get("limits"):
        limits = pool["limits"]
        spec["limits"] = limits if "resources" in limits else {"resources": limits}
    spec.setdefault("requirements", [])
    spec["providerRef"] = {"name": "default-nodetemplate"}
    yield _object("karpenter.sh/v1alpha5", "Provisioner", "default-provisioner", spec)


def _object(api_version: str, kind: str, name: str, spec: Plain) -> Plain:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _metadata(made: AddOnReferences) -> Plain:
    return {**_METADATA, "httpProtocolIPv6": "enabled" if made.ipv6 else "disabled"}


def _pool_spec(flat: Plain, reference: Plain) -> Plain:
    """Return the spec of a NodePool whose parts the blueprints have side by side."""
    metadata = without_empty({"labels": flat.get("labels"), "annotations": flat.get("annotations")})
    template = without_empty(
        {
            "taints": flat.get("taints"),
            "startupTaints": flat.get("startupTaints"),
            "expireAfter": flat.get("expireAfter"),
        }
    )
    template |= {"requirements": flat.get("requirements") or [], "nodeClassRef": reference}
    spec: Plain = {"template": without_empty({"metadata": metadata, "spec": template})}
    return spec | without_empty({key: flat.get(key) for key in ("disruption", "limits", "weight")})


def v1_part(props: KarpenterV1Props, made: AddOnReferences) -> ClusterPart:
    """
    Return what the add-on for version 1 makes in the cluster.

    Raises:
        AddOnError: a value, a NodePool or an EC2NodeClass cannot be used.
    """
    ours = not props.version and props.repository is None
    version = v1_version(props)
    settings = _settings(version, made)
    warnings = []
    if ours:
        # By this label the documentation of the blueprints finds the pods whose logs to read.
        settings["podLabels"] = {"karpenter": "controller"}
        if props.image:
            settings["controller"] = {"image": {"repository": props.image}}
    values = _values(props.values, settings, version, made, pod_identity=props.pod_identity)
    if ours:
        try:
            merged = values_of([msgspec.json.decode(msgspec.json.encode(values))], [])
        except BadValue as error:
            raise AddOnError(f"{KARPENTER_V1}: values: {error}") from error
        if "/" not in merged["controller"]["image"]["repository"]:
            warnings.append(
                "image names no registry, so nodes cannot pull it; hint: image=REGISTRY/karpenter"
            )
    classes = v1_node_classes(props, made)
    pools = list(_v1_pools(props, [each["metadata"]["name"] for each in classes], warnings))
    for each in (*classes, *pools):
        check_manifest(each)
    place = ChartPlace(chart=props.chart)
    if not ours:
        written = chart_version(props.version) if props.version else ""
        place = ChartPlace(
            chart=props.chart,
            repository=OCI if props.repository is None else props.repository,
            version=written,
        )
    return ClusterPart(
        namespace=props.stated_namespace,
        release=props.release,
        before=_before(props.stated_namespace, made, pod_identity=props.pod_identity),
        chart=place,
        values=values,
        objects=(*classes, *pools),
        warnings=tuple(warnings),
    )


def v1_node_classes(props: KarpenterV1Props, made: AddOnReferences) -> list[Plain]:
    """Return the EC2NodeClasses; what they do not state follows from the cluster."""
    specs = {name: dict(spec) for name, spec in props.ec2_node_classes.items()}
    if props.node_pool_spec is not None and props.ec2_node_class_spec is not None:
        specs[NODE_CLASS] = {"metadataOptions": _metadata(made), **props.ec2_node_class_spec}
    return [node_class_of(name, spec, made) for name, spec in specs.items()]


def node_class_of(name: str, spec: Plain, made: AddOnReferences) -> Plain:
    """Return an EC2NodeClass; its role, subnets and security groups follow from the cluster if not stated."""
    filled = dict(spec)
    if not filled.get("role") and not filled.get("instanceProfile"):
        filled["role"] = made.node_role
    for key, ids in (
        ("subnetSelectorTerms", made.subnets),
        ("securityGroupSelectorTerms", made.security_groups),
    ):
        if not filled.get(key) and ids:
            filled[key] = [{"id": each} for each in ids]
    return _object(f"{EC2_GROUP}/v1", "EC2NodeClass", name, filled)


def _v1_pools(props: KarpenterV1Props, classes: list[str], warnings: list[str]) -> Iterator[Plain]:
    specs = dict(props.node_pools)
    if props.node_pool_spec is not None:
        reference = {"group": EC2_GROUP, "kind": "EC2NodeClass", "name": NODE_CLASS}
        specs[POOL] = _pool_spec(_disrupted(props.node_pool_spec, warnings), reference)
    for name, spec in specs.items():
        known = [name] if name in classes else classes
        yield node_pool_of(name, spec, node_class=known[0] if len(known) == 1 else "")


def _disrupted(flat: Plain, warnings: list[str]) -> Plain:
    """Return a pool whose disruption is that of version 1, which the types of the blueprints do not have."""
    disruption = dict(flat.get("disruption") or {})
    if not disruption:
        return flat
    if disruption.get("consolidationPolicy") == "WhenUnderutilized":
        disruption["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
        warnings.append("disruption.consolidationPolicy: WhenUnderutilized is WhenEmptyOrUnderutilized now")
    found = {**flat, "disruption": {"consolidateAfter": "0s", **disruption}}
    if "expireAfter" in disruption:
        found["expireAfter"] = found["disruption"].pop("expireAfter")
        warnings.append("disruption.expireAfter: it is beside disruption now, and expiry waits for no budget")
    return found


def node_pool_of(name: str, spec: Plain, *, node_class: str = "") -> Plain:
    """
    Return a NodePool; `node_class` names its EC2NodeClass where the spec names none.

    Raises:
        AddOnError: no class is known.
    """
    found: Plain = msgspec.json.decode(msgspec.json.encode(spec))
    template = found.setdefault("template", {}).setdefault("spec", {})
    template.setdefault("requirements", [])
    if "nodeClassRef" not in template:
        if not node_class:
            raise AddOnError(
                f"NodePool {name}: template.spec.nodeClassRef is missing",
                hint="name an EC2NodeClass, or give the pool and its class the same name",
            )
        template["nodeClassRef"] = {"group": EC2_GROUP, "kind": "EC2NodeClass", "name": node_class}
    return _object("karpenter.sh/v1", "NodePool", name, found)


def check_manifest(body: Json) -> None:
    """
    Refuse an object that the API server would refuse; tokens count as values that are allowed.

    Raises:
        AddOnError: naming the object, the field and what is allowed.
    """
    kind = KINDS[body["apiVersion"], body["kind"]]
    problems = check_object(kind, _sampled(dict(body), ""))
    if problems:
        name = f"{body['kind']} {body['metadata']['name']}"
        told = "; ".join(f"{each.field}: {each.message}" for each in problems)
        raise AddOnError(f"{name}: {told}")


def _sampled(value: Any, above: str) -> Any:
    """Return a value with something that is allowed in the place of tokens."""
    if isinstance(value, dict):
        return {
            _TOKEN.sub("token", key): _sampled(each, key if key in _TERMS else above)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_sampled(each, above) for each in value]
    if isinstance(value, str) and _TOKEN.search(value):
        return _TERMS.get(above, "token") if _TOKEN.fullmatch(value) else _TOKEN.sub("token", value)
    return value
