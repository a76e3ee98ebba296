"""
A folder of Terraform: what it states about the cluster and the operator, and what it forgets.

Reads text and runs nothing. Values that are literals, locals, or the name of the folder are known; any other
expression stays as its text, and rules that would need its value say nothing. The modules that are known are
those of terraform-aws-modules/eks, version 20 and later, and ours; resources are read where there is no
module. Needs python-hcl2, the extra ``terraform``.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.api.manifests import read_document
from karpenter.api.meta import InvalidObject
from karpenter.doctor.facts import (
    DoctorFacts,
    HelmChart,
    Plain,
    TerraformBlock,
    at,
    list_at,
    mapping_at,
    parse_version,
    values_at,
)
from karpenter.doctor.rule import ERROR, WARNING, DoctorRule, Symptom, listed, on

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_EKS: Final = re.compile(r"terraform-aws-modules/eks/aws(?!.*modules/karpenter)")
_KARPENTER: Final = re.compile(r"terraform-aws-modules/eks/aws.*modules/karpenter$")
_VPC: Final = re.compile(r"^terraform-aws-modules/vpc/aws")
_OURS: Final = re.compile(r"(^|/)terraform/karpenter(\?|$)|^\.\.?/(.*/)?karpenter$")
_CONTROLLER_NODES: Final = re.compile(r"karpenter/modules/managed-node-group(\?|$)")
_LAST_WITH_IRSA: Final = 20
"""The last major version of terraform-aws-modules/eks that knew the ways of before Karpenter 1."""

CONTROLLER: Final = "karpenter.sh/controller"
"""The label and the taint of nodes for the operator."""

DISCOVERY: Final = "karpenter.sh/discovery"
AGENT: Final = "eks-pod-identity-agent"

_LOCAL: Final = re.compile(r"\$\{local\.(\w+)\}")
_FOLDER: Final = re.compile(r"\$\{basename\(path\.(?:cwd|module|root)\)\}")
_HEREDOC: Final = re.compile(r"<<(-?)(\w+)\n(.*)\n\s*\2\s*$", re.DOTALL)
_MOST_LOCALS: Final = 5


class TerraformUnreadable(ValueError):  # noqa: N818  it reads as a word
    """A text is not Terraform; the message says where."""


def read_terraform(texts: Mapping[str, str], *, folder: str) -> tuple[TerraformBlock, ...]:
    """
    Return the modules and resources of the files of one folder.

    Raises:
        TerraformUnreadable: naming the file and the line.
        ModuleNotFoundError: python-hcl2 is not installed.
    """
    import hcl2  # noqa: PLC0415  only who reads Terraform needs it

    plains: dict[str, Plain] = {}
    for source, text in texts.items():
        try:
            plains[source] = _plain(hcl2.loads(text if text.endswith("\n") else f"{text}\n"))
        except Exception as error:  # the parser raises errors of several libraries
            line = getattr(error, "line", 1)
            raise TerraformUnreadable(
                f"{source}: line {line}: not Terraform: {_first_line(error)}"
            ) from error
    known: dict[str, Any] = {}
    for plain in plains.values():
        for block in list_at(plain, "locals"):
            known |= block
    resolve = _Resolver(known, folder)
    return tuple(
        TerraformBlock(type=kind, name=name, source=source, body=resolve.value(body))
        for source, plain in plains.items()
        for kind, name, body in _blocks(plain)
    )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _blocks(plain: Plain) -> Iterator[tuple[str, str, Plain]]:
    for module in list_at(plain, "module"):
        for name, body in module.items():
            yield "module", name, body
    for resource in list_at(plain, "resource"):
        for kind, named in resource.items():
            for name, body in named.items():
                yield kind, name, body


def _plain(value: Any) -> Any:
    """Return what the parser makes of a text, without its quotes and marks."""
    if isinstance(value, dict):
        return {_unquoted(str(k)): _plain(v) for k, v in value.items() if not str(k).startswith("__")}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return _unquoted(value) if isinstance(value, str) else value


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == '"':
        inner = text[1:-1]
        heredoc = _HEREDOC.match(inner)
        if heredoc:
            return textwrap.dedent(heredoc[3]) if heredoc[1] else heredoc[3]
        return inner.replace('\\"', '"').replace("\\n", "\n")
    return text


class _Resolver:
    """Fills in locals and the name of the folder."""

    def __init__(self, known: Mapping[str, Any], folder: str) -> None:
        self._known, self._folder = known, folder

    def value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.value(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self.value(each) for each in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> Any:
        for _ in range(_MOST_LOCALS):
            whole = _LOCAL.fullmatch(text)
            if whole and whole[1] in self._known and not isinstance(self._known[whole[1]], str):
                return self.value(self._known[whole[1]])
            filled = _LOCAL.sub(lambda found: str(self._known.get(found[1], found[0])), text)
            filled = _FOLDER.sub(self._folder, filled)
            if filled == text:
                break
            text = filled
        return text


def charts_in(blocks: Iterable[TerraformBlock]) -> Iterator[HelmChart]:
    """Yield the installations of the chart that Terraform makes."""
    for each in blocks:
        if each.type == "helm_release" and str(each.body.get("chart", "")).endswith("karpenter"):
            yield HelmChart(
                source=each.source,
                subject=each.subject,
                release=str(each.body.get("name", "")),
                namespace=str(each.body.get("namespace", "")),
                version=str(each.body.get("version", "")),
                repository=str(each.body.get("repository") or each.body.get("chart", "")),
                values=_values(each),
                fields={"release": "name"},
            )


def _values(release: TerraformBlock) -> Plain:
    merged: Plain = {}
    for text in values_at(release.body, "values"):
        try:
            found = read_document(str(text), source="values")
        except InvalidObject:
            continue
        merged |= found if isinstance(found, dict) else {}
    return merged


class TerraformModule(msgspec.Struct, frozen=True, kw_only=True):
    """What a module for Karpenter makes: that of terraform-aws-modules, or ours of deploy/terraform."""

    block: TerraformBlock
    associates: bool
    """Whether it gives the operator a role by pod identity."""

    irsa: bool
    brings_agent: bool
    namespace: str
    node_role: str
    """The name of the role of nodes; empty where it has a suffix that nothing knows."""

    role_fix: str
    makes_entry: bool
    makes_queue: bool
    tells_chart: bool
    """Whether it installs the chart itself, with the queue that it makes."""


class TerraformNodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are there without the operator."""

    block: TerraformBlock
    name: str
    labels: Plain
    taints: tuple[str, ...]
    """Their keys."""


def _of_type(facts: DoctorFacts, *types: str) -> list[TerraformBlock]:
    return [each for each in facts.terraform or () if each.type in types]


def _from(facts: DoctorFacts, source: re.Pattern[str]) -> list[TerraformBlock]:
    return [each for each in _of_type(facts, "module") if source.search(str(each.body.get("source", "")))]


def _karpenter_modules(facts: DoctorFacts) -> Iterator[TerraformModule]:
    for each in _from(facts, _KARPENTER):
        body, cluster = each.body, str(each.body.get("cluster_name", ""))
        prefixed = body.get("node_iam_role_use_name_prefix", True) is not False
        name = str(body.get("node_iam_role_name") or f"Karpenter-{cluster}")
        yield TerraformModule(
            block=each,
            # Off by default in version 20, on in 21:
            # https://github.com/terraform-aws-modules/terraform-aws-eks/blob/master/docs/UPGRADE-21.0.md
            associates=body.get("create_pod_identity_association", _major(each) > _LAST_WITH_IRSA) is True,
            irsa=body.get("enable_irsa") is True,
            brings_agent=False,
            namespace=str(body.get("namespace", "kube-system")),
            node_role="" if prefixed else name,
            role_fix="node_iam_role_use_name_prefix = false and node_iam_role_name"
            if prefixed
            else "node_iam_role_name",
            makes_entry=body.get("create_access_entry") is not False,
            makes_queue=body.get("enable_spot_termination", True) is not False,
            tells_chart=False,
        )
    for each in _from(facts, _OURS):
        body = each.body
        by_pods = body.get("identity", "pod-identity") == "pod-identity"
        yield TerraformModule(
            block=each,
            associates=by_pods,
            irsa=not by_pods,
            brings_agent=body.get("create_pod_identity_agent") is not False,
            namespace=str(body.get("namespace", "kube-system")),
            node_role=str(body.get("node_role_name") or f"KarpenterNodeRole-{body.get('cluster_name', '')}"),
            role_fix="node_role_name",
            makes_entry=body.get("create_access_entry") is not False,
            makes_queue=True,
            tells_chart=True,
        )


def _major(module: TerraformBlock) -> int:
    """Return the major version that a module is bound to; the latest where it is not."""
    found = re.search(r"\d+", str(module.body.get("version", "")))
    return int(found[0]) if found else 21


def _addons(module: TerraformBlock) -> Plain:
    return mapping_at(module.body, "addons") or mapping_at(module.body, "cluster_addons")


def _node_groups(facts: DoctorFacts) -> Iterator[TerraformNodeGroup]:
    for module in _from(facts, _EKS):
        for name, group in mapping_at(module.body, "eks_managed_node_groups").items():
            if isinstance(group, dict):
                labels = mapping_at(group, "labels")
                yield TerraformNodeGroup(
                    block=module, name=name, labels=labels, taints=_taints(group.get("taints"))
                )
    for each in _of_type(facts, "aws_eks_node_group"):
        labels, taints = mapping_at(each.body, "labels"), _taints(each.body.get("taint"))
        yield TerraformNodeGroup(block=each, name=each.name, labels=labels, taints=taints)
    for each in _from(facts, _CONTROLLER_NODES):
        yield TerraformNodeGroup(
            block=each, name=each.name, labels={CONTROLLER: "true"}, taints=(CONTROLLER,)
        )


def _taints(plain: Any) -> tuple[str, ...]:
    found = plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else []
    return tuple(str(each.get("key")) for each in found if isinstance(each, dict))


def _release(facts: DoctorFacts) -> TerraformBlock | None:
    releases = _of_type(facts, "helm_release")
    return next((each for each in releases if str(each.body.get("chart", "")).endswith("karpenter")), None)


def _placement(facts: DoctorFacts) -> Iterator[Symptom]:
    release = _release(facts)
    if release is None:
        return
    values = _values(release)
    wanted = {
        str(k): str(v) for k, v in mapping_at(values, "nodeSelector").items() if k != "kubernetes.io/os"
    }
    groups = list(_node_groups(facts))
    fitting = [
        each
        for each in groups
        if wanted.items() <= {k: str(v).lower() for k, v in each.labels.items()}.items()
    ]
    if wanted and groups and not fitting:
        text = ", ".join(f"{key}={value}" for key, value in wanted.items())
        yield on(
            release,
            f"selects nodes with {text}, and no node group has that label",
            field="values.nodeSelector",
        )
    keys = [each.get("key") for each in list_at(values, "tolerations")]
    for group in fitting if wanted and None not in keys else []:
        for taint in group.taints:
            if taint not in keys:
                message = f"does not tolerate the taint {taint} of node group {group.name}"
                yield on(release, message, field="values.tolerations")


def _coredns(facts: DoctorFacts) -> Iterator[Symptom]:
    groups = list(_node_groups(facts))
    if not groups or not all(group.taints for group in groups):
        return
    tolerated, place = "", (groups[0].block, "")
    for module in _from(facts, _EKS):
        field = "cluster_addons.coredns" if "cluster_addons" in module.body else "addons.coredns"
        tolerated += str(at(_addons(module), "coredns.configuration_values", ""))
        place = (module, field)
    for each in _of_type(facts, "aws_eks_addon"):
        if each.body.get("addon_name") == "coredns":
            tolerated += str(each.body.get("configuration_values", ""))
            place = (each, "configuration_values")
    for each in _from(facts, _CONTROLLER_NODES):
        tolerated += CONTROLLER if each.body.get("create_coredns") is not False else ""
    missing = {taint for group in groups for taint in group.taints if taint not in tolerated}
    if missing:
        message = f"every node group has a taint, and CoreDNS does not tolerate {listed(missing)}"
        yield on(place[0], message, field=place[1])


def _agent(facts: DoctorFacts) -> Iterator[Symptom]:
    modules = list(_karpenter_modules(facts))
    uses = [each.block for each in modules if each.associates]
    uses += _of_type(facts, "aws_eks_pod_identity_association")
    # A literal, or one of a set that for_each goes through.
    addons = " ".join(str(each.body) for each in _of_type(facts, "aws_eks_addon"))
    addons += " ".join(str(list(_addons(each))) for each in _from(facts, _EKS))
    if uses and AGENT not in addons and not any(each.brings_agent for each in modules):
        place = next(iter((*_from(facts, _EKS), *_of_type(facts, "aws_eks_cluster"), *uses)))
        field = "cluster_addons" if place.type == "module" else ""
        yield on(place, f"the operator uses pod identity, without the add-on {AGENT}", field=field)


def _identity(facts: DoctorFacts) -> Iterator[Symptom]:
    release = _release(facts)
    places = [(each.block, each.namespace) for each in _karpenter_modules(facts) if not each.tells_chart]
    for module in _karpenter_modules(facts):
        if not module.associates and not module.irsa:
            yield on(module.block, "gives the operator no role", field="create_pod_identity_association")
    places += [
        (each, str(each.body.get("namespace", "")))
        for each in _of_type(facts, "aws_eks_pod_identity_association")
        if release is not None and "karpenter" in str(each.body).lower()
    ]
    for block, mine in places:
        if release is not None and "${" not in mine and str(release.body.get("namespace", mine)) != mine:
            message = f"the role is for namespace {mine}, and the chart goes to {release.body['namespace']}"
            yield on(block, message, field="namespace", fix=f'set namespace = "{release.body["namespace"]}"')


def _discovery(facts: DoctorFacts) -> Iterator[Symptom]:
    classes = list(facts.classes())
    selecting = [each for each in classes if DISCOVERY in str(at(each.plain, "spec", {}))]
    if classes and not selecting:
        return
    tagged = " ".join(str(e.body) for e in _of_type(facts, "aws_ec2_tag") if DISCOVERY in str(e.body))
    given = {key for module in _from(facts, _OURS) for key in module.body}
    for each in _from(facts, _VPC):
        tags = "".join(str(each.body.get(f"{tier}_subnet_tags", "")) for tier in ("private", "intra"))
        if DISCOVERY not in tags + str(each.body.get("tags", "")):
            yield on(each, f"no subnet is tagged {DISCOVERY}", field="private_subnet_tags")
    subnets = _of_type(facts, "aws_subnet")
    if subnets and not ("subnet" in tagged or "subnet_ids" in given or _tags(subnets)):
        yield on(subnets[0], f"no subnet is tagged {DISCOVERY}", field="tags")
    for module in _from(facts, _EKS):
        fields = ("node_security_group_tags", "cluster_security_group_additional_rules", "tags")
        if not any(DISCOVERY in str(module.body.get(field, "")) for field in fields):
            yield on(module, f"no security group is tagged {DISCOVERY}", field="node_security_group_tags")
    groups = _tags(_of_type(facts, "aws_security_group")) or "security_group" in tagged
    for each in _of_type(facts, "aws_eks_cluster"):
        if not groups and "security_group_ids" not in given:
            yield on(each, f"no security group is tagged {DISCOVERY}", field="vpc_config")


def _tags(blocks: list[TerraformBlock]) -> bool:
    return any(DISCOVERY in str(each.body) for each in blocks)


def _role_name(facts: DoctorFacts) -> Iterator[Symptom]:
    stated = [(each, str(at(each.plain, "spec.role", ""))) for each in facts.classes()]
    stated = [(each, role) for each, role in stated if role and "${" not in role]
    modules = list(_karpenter_modules(facts))
    for module in modules:
        for each, role in stated:
            fix = f'set {module.role_fix} = "{role}"'
            if not module.node_role:
                message = f"gets a suffix that nothing knows, and EC2NodeClass {each.subject} names {role}"
                field = "node_iam_role_use_name_prefix"
                yield on(module.block, f"the name of the node role {message}", field=field, fix=fix)
            elif "${" not in module.node_role and role != module.node_role:
                message = f"the node role is called {module.node_role}, and {each.subject} names {role}"
                yield on(module.block, message, field=module.role_fix, fix=fix)
    made = [each for each in _of_type(facts, "aws_iam_role") if "ec2." in str(each.body)]
    names = [str(each.body.get("name", "${")) for each in made]
    for each, role in stated if made and not modules and not any("${" in name for name in names) else []:
        if role not in names:
            message = f"{each.subject} names {role}, and Terraform makes {listed(names)} for nodes"
            yield on(made[0], message, field="name", fix=f'set name = "{role}"')


def _access(facts: DoctorFacts) -> Iterator[Symptom]:
    entries = _of_type(facts, "aws_eks_access_entry")
    for module in _karpenter_modules(facts):
        if not module.makes_entry and not entries:
            yield on(module.block, "nothing lets nodes into the cluster", field="create_access_entry")
    for each in entries:
        people = each.body.get("type", "STANDARD") == "STANDARD"
        if people and "karpenter" in str(each.body).lower():
            message = "is STANDARD, which lets people in and not nodes"
            yield on(each, message, field="type", fix='set type = "EC2_LINUX"')


def _queue(facts: DoctorFacts) -> Iterator[Symptom]:
    release = _release(facts)
    if release is None:
        return
    queue = at(_values(release), "settings.interruptionQueue")
    readable = all("${" not in str(each) or ":" in str(each) for each in values_at(release.body, "values"))
    makers = [
        (each.block, f"{each.block.subject}.queue_name")
        for each in _karpenter_modules(facts)
        if each.makes_queue
    ]
    makers += [(each, f"{each.subject}.name") for each in _of_type(facts, "aws_sqs_queue")]
    for block, name in makers if readable and not queue else []:
        yield on(
            release,
            f"{block.subject} makes a queue, and the operator is not told",
            field="values.settings.interruptionQueue",
            fix=f"set it to ${{{name}}}",
            severity=WARNING,
        )
    for module in _karpenter_modules(facts):
        if not module.makes_queue and module.block.subject in str(queue):
            message = "makes no queue, and the operator is told one"
            fix = "remove enable_spot_termination = false"
            yield on(module.block, message, field="enable_spot_termination", fix=fix)


def _permissions(facts: DoctorFacts) -> Iterator[Symptom]:
    release = _release(facts)
    version = parse_version(str(release.body.get("version", ""))) if release is not None else None
    for module in _from(facts, _KARPENTER):
        given = module.body.get("enable_v1_permissions")
        if _major(module) > _LAST_WITH_IRSA and given is not None:
            message = (
                "version 21 of the module does not know it: its permissions are always those of version 1"
            )
            yield on(module, message, field="enable_v1_permissions", fix="remove it")
        elif (
            _major(module) == _LAST_WITH_IRSA
            and given is not True
            and version is not None
            and version >= (1, 0, 0)
        ):
            message = f"is not set, and the chart is {release.body.get('version') if release else ''}"
            yield on(module, message, field="enable_v1_permissions", fix="set enable_v1_permissions = true")


_PATTERN: Final = "https://aws-ia.github.io/terraform-aws-eks-blueprints/patterns/karpenter-mng/"
_MODULE: Final = "https://github.com/terraform-aws-modules/terraform-aws-eks/tree/master/modules/karpenter"

RULES: Final = (
    DoctorRule(
        id="terraform-placement",
        severity=ERROR,
        title="The chart selects nodes that no node group makes, or does not tolerate their taint.",
        fix="give the node group the label that the chart selects, and the chart a toleration for its taint",
        why="The operator stays pending.",
        check=_placement,
        needs=("terraform",),
        link=_PATTERN,
    ),
    DoctorRule(
        id="terraform-coredns",
        severity=ERROR,
        title="CoreDNS does not tolerate the taint of the node groups.",
        fix="add the toleration to configuration_values of the add-on coredns",
        why="The operator resolves names through CoreDNS, CoreDNS waits for a node, and neither starts. With "
        "wait = true in helm_release the apply does not end either.",
        check=_coredns,
        needs=("terraform",),
        link=_PATTERN,
    ),
    DoctorRule(
        id="terraform-pod-identity-agent",
        severity=ERROR,
        title="Pod identity is used, and its agent is not installed.",
        fix="add eks-pod-identity-agent = {} to the add-ons",
        why="Nothing hands credentials to the operator.",
        check=_agent,
        needs=("terraform",),
        link="https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html",
    ),
    DoctorRule(
        id="terraform-identity",
        severity=ERROR,
        title="The module gives the operator no role, or gives it to another namespace.",
        fix="set create_pod_identity_association = true",
        why="Version 20 of the module makes no association by default, and its namespace is kube-system.",
        check=_identity,
        needs=("terraform",),
        link=_MODULE,
    ),
    DoctorRule(
        id="terraform-discovery-tags",
        severity=ERROR,
        title="Nothing is tagged karpenter.sh/discovery, and node classes select by it.",
        fix='add "karpenter.sh/discovery" = local.name to the tags',
        why="The class finds no subnet or no security group, and does not become ready.",
        check=_discovery,
        needs=("terraform",),
        link=_PATTERN,
    ),
    DoctorRule(
        id="terraform-role-name",
        severity=ERROR,
        title="The role that an EC2NodeClass names is not the one that Terraform makes.",
        fix="set node_iam_role_use_name_prefix = false and node_iam_role_name to the name in the class",
        why="The class does not become ready; the operator may not pass another role.",
        check=_role_name,
        needs=("terraform", "objects"),
        link=_MODULE,
    ),
    DoctorRule(
        id="terraform-access-entry",
        severity=ERROR,
        title="Terraform makes no access entry for nodes, or one for people.",
        fix="leave create_access_entry at true, or make an entry of type EC2_LINUX",
        why="Instances run and cost money, and no node appears.",
        check=_access,
        needs=("terraform",),
        link="https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html",
    ),
    DoctorRule(
        id="terraform-queue",
        severity=ERROR,
        title="The interruption queue of the module and that of the chart differ.",
        fix="set settings.interruptionQueue to the queue_name of the module",
        why="The operator learns of no interruption, or stops at its start.",
        check=_queue,
        needs=("terraform",),
        link=_MODULE,
    ),
    DoctorRule(
        id="terraform-v1-permissions",
        severity=ERROR,
        title="The policy of the module is not for the version of the chart.",
        fix="set enable_v1_permissions = true in version 20 of the module, and nothing in version 21",
        why="The policy of before version 1 has other conditions, and AWS refuses calls.",
        check=_permissions,
        needs=("terraform",),
        link=_MODULE,
    ),
)
