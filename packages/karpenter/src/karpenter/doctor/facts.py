"""
What the doctor knows: objects, charts, an account, policies, logs and Terraform, as one value.

A source that was not given, or that could not be read, is None; rules that need it are skipped. Nothing here
asks a cluster or an account. The few questions at the end (which version, which service account, which queue)
are answered from whatever source knows: the running Deployment, a chart, or Terraform.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter import __version__
from karpenter.api.manifests import Document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Plain = dict[str, Any]

ROLE_ANNOTATION: Final = "eks.amazonaws.com/role-arn"
SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")
_CONTROLLER: Final = "karpenter"
_DISCOVERY: Final = "karpenter.sh/discovery"
# us-west-2a lies in us-west-2, and so does the local zone us-west-2-lax-1a.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-regions-availability-zones.html
_REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d+")


class HelmChart(msgspec.Struct, frozen=True, kw_only=True):
    """An installation of the chart, as Helm, a GitOps tool or Terraform states it."""

    source: str
    """Where it is stated: a file, or the cluster."""

    subject: str
    """The object that states it, such as ``HelmRelease/karpenter``."""

    release: str = ""
    namespace: str = ""
    version: str = ""
    repository: str = ""
    values: Plain = {}
    tool: str = "helm"
    """What installs it; Argo CD writes registries without ``oci://``."""

    fields: dict[str, str] = {}
    """Which field states the release, the version and the repository."""


class SubnetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet of the account."""

    id: str
    vpc: str
    zone: str
    tags: dict[str, str] = {}
    free_addresses: int = 0
    public: bool = False
    """Whether instances in it get a public address."""


class SecurityGroupFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A security group of the account."""

    id: str
    vpc: str
    name: str
    tags: dict[str, str] = {}


class PolicyText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of an IAM policy, and where it is from."""

    source: str
    text: str
    sort: str = ""
    """``managed`` or ``inline``, where that is known."""


class RoleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An IAM role."""

    name: str
    arn: str
    trust: Plain = {}
    attached: tuple[str, ...] = ()
    """Names of the managed policies."""

    policies: tuple[PolicyText, ...] = ()
    """Documents of its own policies, those that AWS manages excepted."""

    source: str = ""
    """No file: the account has it."""

    @property
    def subject(self) -> str:
        return f"role/{self.name}"


class EksFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What EKS says about the cluster."""

    name: str
    version: str = ""
    issuer: str = ""
    """The OIDC issuer, without ``https://``."""

    vpc: str = ""
    auth_mode: str = ""
    """CONFIG_MAP, API or API_AND_CONFIG_MAP; empty where EKS does not say."""


class PodIdentityFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A pod identity association: which service account gets which role."""

    namespace: str
    service_account: str
    role: str = ""


class AccessEntryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An access entry of the cluster."""

    principal: str
    type: str
    groups: tuple[str, ...] = ()


class FargateSelector(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods a Fargate profile takes."""

    namespace: str
    labels: dict[str, str] = {}


class QueueFacts(msgspec.Struct, frozen=True, kw_only=True):
    """An SQS queue."""

    name: str
    arn: str
    policy: Plain = {}


class EventRuleFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of EventBridge."""

    name: str
    pattern: Plain = {}
    enabled: bool = True
    targets: tuple[str, ...] = ()
    """ARNs."""


class QuotaFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A quota of vCPUs, and how much of it is used."""

    code: str
    name: str
    limit: float
    used: int = 0
    """vCPUs of the instances that run, of all that count against it."""


class AwsFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What an account holds; None where it was not read."""

    zones: tuple[str, ...] | None = None
    subnets: tuple[SubnetFacts, ...] | None = None
    security_groups: tuple[SecurityGroupFacts, ...] | None = None
    roles: dict[str, RoleFacts | None] | None = None
    """Roles that were asked for, by name; None for one that does not exist."""

    instance_profiles: dict[str, tuple[str, ...] | None] | None = None
    """Names of the roles in each profile that was asked for."""

    oidc_providers: tuple[str, ...] | None = None
    """Issuers without ``https://``."""

    eks: EksFacts | None = None
    pod_identities: tuple[PodIdentityFacts, ...] | None = None
    access_entries: tuple[AccessEntryFacts, ...] | None = None
    addons: tuple[str, ...] | None = None
    fargate: tuple[FargateSelector, ...] | None = None
    queues: dict[str, QueueFacts | None] | None = None
    event_rules: tuple[EventRuleFacts, ...] | None = None
    quotas: tuple[QuotaFacts, ...] | None = None
    """Those of vCPUs, in the region of the cluster."""

    def role(self, name: str) -> RoleFacts | None:
        """Return a role by its name or its ARN; None where it does not exist, or is not known."""
        return (self.roles or {}).get(role_name(name))


class LogText(msgspec.Struct, frozen=True, kw_only=True):
    """A log, and where it is from."""

    source: str
    text: str


class UnreadableText(msgspec.Struct, frozen=True, kw_only=True):
    """A text, or a document of it, that is no object of Kubernetes."""

    source: str
    problem: str
    broken: bool = True
    """Whether it should have been one; a template of a chart should not."""


class TerraformBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A module or a resource of a Terraform folder."""

    type: str
    """``module``, or the type of the resource, such as ``helm_release``."""

    name: str
    source: str
    """The file."""

    body: Plain = {}
    """Literals as they are; expressions as text in ``${...}``."""

    @property
    def subject(self) -> str:
        return f"{self.type}.{self.name}"


class KindDenied(Exception):  # noqa: N818  reads as what happened
    """A rule looks at a kind that may not be read."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"{kind} may not be read in the cluster")


class DoctorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is known."""

    objects: tuple[Document, ...] | None = None
    now: datetime | None = None
    """When a live cluster was read."""

    live: bool = False
    """Whether `objects` are all there are in a cluster, rather than some manifests."""

    kubernetes: str | None = None
    """The version of the control plane, such as 1.33."""

    charts: tuple[HelmChart, ...] | None = None
    region: str = ""
    cluster: str = ""
    aws: AwsFacts = AwsFacts()
    policies: tuple[PolicyText, ...] | None = None
    logs: tuple[LogText, ...] | None = None
    terraform: tuple[TerraformBlock, ...] | None = None
    unreadable: tuple[UnreadableText, ...] = ()
    unread: dict[str, str] = {}
    """Why a source that was asked for could not be read, by its name."""

    denied: dict[str, str] = {}
    """Which kinds of the cluster may not be read, by name, and what the API server said."""

    def of_kind(self, *kinds: str) -> Iterator[Document]:
        """
        Yield the objects of these kinds.

        Raises:
            KindDenied: after those that are known, where the cluster may have others that may not be read.
        """
        yield from (each for each in self.objects or () if each.plain.get("kind") in kinds)
        for kind in kinds:
            if kind in self.denied:
                raise KindDenied(kind)

    def pools(self) -> Iterator[Document]:
        """Yield the NodePools of version 1."""
        yield from (each for each in self.of_kind("NodePool") if each.identity[0] == "karpenter.sh/v1")

    def classes(self) -> Iterator[Document]:
        """Yield the EC2NodeClasses of version 1."""
        yield from (
            each for each in self.of_kind("EC2NodeClass") if each.identity[0] == "karpenter.k8s.aws/v1"
        )


def at(plain: object, path: str, default: Any = None) -> Any:
    """Return what is at a path of keys with dots; the default where nothing is, or null."""
    for step in path.split("."):
        plain = plain.get(step) if isinstance(plain, dict) else None
    return default if plain is None else plain


def mapping_at(plain: object, path: str) -> Plain:
    """Return the mapping at a path; empty where there is none."""
    found = at(plain, path)
    return found if isinstance(found, dict) else {}


def list_at(plain: object, path: str) -> list[Plain]:
    """Return the mappings of the list at a path; what else it holds is refused by ``invalid-object``."""
    return [each for each in values_at(plain, path) if isinstance(each, dict)]


def values_at(plain: object, path: str) -> list[Any]:
    """Return the list at a path; empty where there is none."""
    found = at(plain, path)
    return found if isinstance(found, list) else []


def text_at(plain: object, path: str, default: str = "") -> str:
    """Return what is at a path as text; the default where nothing is, or no scalar."""
    found = at(plain, path)
    return default if found is None or isinstance(found, dict | list) else str(found)


def texts_at(plain: object, path: str) -> list[str]:
    """Return the list of texts at a path; empty where there is none."""
    return [str(each) for each in values_at(plain, path) if not isinstance(each, dict | list)]


def number_at(plain: object, path: str, default: int) -> int:
    """Return the whole number at a path; the default where there is none."""
    found = at(plain, path)
    return found if isinstance(found, int) else default


def parse_version(text: str) -> tuple[int, int, int] | None:
    """Return a version as numbers; None where a text begins with none."""
    found = _VERSION.match(text.strip())
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def spelled(version: Iterable[int]) -> str:
    return ".".join(str(each) for each in version)


def operator_deployment(facts: DoctorFacts) -> Document | None:
    """Return the Deployment of the operator; None where there is none among the objects."""
    for each in facts.of_kind("Deployment"):
        labels = {**mapping_at(each.plain, "metadata.labels"), **_pod_labels(each)}
        name = at(each.plain, "metadata.name", "")
        if labels.get("app.kubernetes.io/name") == _CONTROLLER or name == _CONTROLLER:
            return each
    return None


def _pod_labels(workload: Document) -> Plain:
    return mapping_at(workload.plain, "spec.template.metadata.labels")


class OperatorFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How the operator is installed, from whatever source says so."""

    subject: str
    source: str = ""
    version: tuple[int, int, int] | None = None
    """The version of Karpenter; None where it is this project's operator, or not known."""

    ours: bool = False
    """Whether it is this project's operator, which does what Karpenter 1.14 does."""

    namespace: str = "kube-system"
    service_account: str = _CONTROLLER
    role: str = ""
    """The ARN of the role that the service account is annotated with."""

    cluster_name: str = ""
    queue: str = ""
    dns_policy: str = "ClusterFirst"
    replicas: int = 2


def operator_of(facts: DoctorFacts) -> OperatorFacts | None:
    """Return how the operator is installed; None where no source says that it is."""
    deployment = operator_deployment(facts)
    if deployment is not None:
        return _from_deployment(facts, deployment)
    for chart in facts.charts or ():
        return _from_chart(chart)
    return None


def _from_deployment(facts: DoctorFacts, deployment: Document) -> OperatorFacts:
    plain = deployment.plain
    spec = mapping_at(plain, "spec.template.spec")
    container = next(iter(list_at(spec, "containers")), {})
    values = {str(each.get("name")): str(each.get("value") or "") for each in list_at(container, "env")}
    ours = values_at(container, "args")[:1] == ["run"]
    image = str(container.get("image", "")).partition("@")[0]
    label = str(mapping_at(plain, "metadata.labels").get("app.kubernetes.io/version", ""))
    version = parse_version(label) or parse_version(image.rpartition(":")[2])
    namespace = str(at(plain, "metadata.namespace", "kube-system"))
    account = str(spec.get("serviceAccountName") or _CONTROLLER)
    return OperatorFacts(
        subject=deployment.subject,
        source=deployment.source,
        version=None if ours else version,
        ours=ours,
        namespace=namespace,
        service_account=account,
        role=_annotated(facts, namespace, account),
        cluster_name=values.get("CLUSTER_NAME", ""),
        queue=values.get("INTERRUPTION_QUEUE", ""),
        dns_policy=str(spec.get("dnsPolicy") or "ClusterFirst"),
        replicas=number_at(plain, "spec.replicas", 1),
    )


def _annotated(facts: DoctorFacts, namespace: str, name: str) -> str:
    for each in facts.of_kind("ServiceAccount"):
        found = mapping_at(each.plain, "metadata")
        if found.get("name") == name and found.get("namespace", namespace) == namespace:
            return str(mapping_at(found, "annotations").get(ROLE_ANNOTATION, ""))
    return ""


def _from_chart(chart: HelmChart) -> OperatorFacts:
    values = chart.values
    version = parse_version(chart.version)
    ours = version is not None and spelled(version) == __version__
    default = "Default" if version is not None and (0, 14, 0) <= version < (0, 34, 0) else "ClusterFirst"
    account = at(values, "serviceAccount.name") or chart.release or _CONTROLLER
    return OperatorFacts(
        subject=chart.subject,
        source=chart.source,
        version=None if ours else version,
        ours=ours,
        namespace=chart.namespace or "kube-system",
        service_account=str(account),
        role=str(mapping_at(values, "serviceAccount.annotations").get(ROLE_ANNOTATION, "")),
        cluster_name=_setting(values, "clusterName"),
        queue=str(
            _setting(values, "interruptionQueue") or at(values, "settings.aws.interruptionQueueName", "")
        ),
        dns_policy=str(at(values, "dnsPolicy", default)),
        replicas=number_at(values, "replicas", 2),
    )


def _setting(values: Plain, name: str) -> str:
    return str(at(values, f"settings.{name}") or at(values, f"settings.aws.{name}") or "")


def node_roles(facts: DoctorFacts) -> dict[str, list[Document]]:
    """Return the names of the node roles that classes state, with the classes."""
    found: dict[str, list[Document]] = {}
    for each in facts.classes():
        role = at(each.plain, "spec.role", "")
        if isinstance(role, str) and role:
            found.setdefault(role, []).append(each)
    return found


def queue_name(facts: DoctorFacts) -> str:
    """Return the name of the interruption queue; empty where none is set."""
    operator = operator_of(facts)
    name = operator.queue if operator is not None else ""
    return "" if "${" in name else name


def cluster_name(facts: DoctorFacts) -> str:
    """Return the name of the cluster: as asked for, as the operator is told, or as all classes select by."""
    operator = operator_of(facts)
    stated = facts.cluster or (operator.cluster_name if operator is not None else "")
    if stated:
        return stated
    tags = {
        str(mapping_at(term, "tags").get(_DISCOVERY, ""))
        for each in facts.classes()
        for term in list_at(each.plain, "spec.subnetSelectorTerms")
    }
    return tags.pop() if len(tags) == 1 else ""


def region_of_cluster(facts: DoctorFacts) -> str:
    """Return the region that the instances of a cluster are in; empty if there are none, or in several."""
    zones = {
        str(at(each.plain, "spec.providerID", "")).removeprefix("aws:///").partition("/")[0]
        for each in facts.of_kind("Node")
        if str(at(each.plain, "spec.providerID", "")).startswith("aws://")
    }
    regions = {found[0] for zone in zones if (found := _REGION.match(zone)) is not None}
    return regions.pop() if len(regions) == 1 else ""


def role_name(arn: str) -> str:
    """Return the name of a role from its ARN, without its path."""
    return arn.rpartition("/")[2]


def controller_role(facts: DoctorFacts) -> str:
    """Return the ARN of the operator's role, annotated or associated; empty where none is known."""
    operator = operator_of(facts)
    if operator is None:
        return ""
    if operator.role:
        return operator.role
    for each in facts.aws.pod_identities or ():
        if (each.namespace, each.service_account) == (operator.namespace, operator.service_account):
            return each.role
    return ""
