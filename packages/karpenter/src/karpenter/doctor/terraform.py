"""
A folder of Terraform: what it states about the cluster and the operator, and what it forgets.

Reads text and runs nothing. Values that are literals, locals, or the name of the folder are known; any other
expression stays as its text, and rules that would need its value say nothing. The modules that are known are
those of terraform-aws-modules/eks, version 20 and later. Needs python-hcl2, the extra ``terraform``.
"""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any, Final

from karpenter.api.manifests import read_document
from karpenter.api.meta import InvalidObject
from karpenter.doctor.facts import (
    HelmChart,
    TerraformBlock,
    at,
    list_at,
    mapping_at,
    parse_version,
    values_at,
)
from karpenter.doctor.rule import ERROR, WARNING, DoctorRule, Symptom, listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from karpenter.doctor.facts import DoctorFacts, Plain

EKS_MODULE: Final = "terraform-aws-modules/eks/aws"
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


def _modules(facts: DoctorFacts, *, karpenter: bool) -> Iterator[TerraformBlock]:
    for each in facts.terraform or ():
        source = str(each.body.get("source", ""))
        if (
            each.type == "module"
            and EKS_MODULE in source
            and source.endswith("modules/karpenter") == karpenter
        ):
            yield each


def _major(module: TerraformBlock) -> int:
    """Return the major version that a module is bound to; the latest where it is not."""
    found = re.search(r"\d+", str(module.body.get("version", "")))
    return int(found[0]) if found else 21


def _addons(module: TerraformBlock) -> Plain:
    return mapping_at(module.body, "addons") or mapping_at(module.body, "cluster_addons")


def _groups(module: TerraformBlock) -> dict[str, Plain]:
    found = mapping_at(module.body, "eks_managed_node_groups")
    return {name: group for name, group in found.items() if isinstance(group, dict)}


def _taints(group: Plain) -> list[Plain]:
    found = group.get("taints")
    listed_taints = (
        list(found.values()) if isinstance(found, dict) else found if isinstance(found, list) else []
    )
    return [each for each in listed_taints if isinstance(each, dict)]


def _release(facts: DoctorFacts) -> TerraformBlock | None:
    return next(
        (e for e in facts.terraform or () if e.type == "helm_release" and e.body.get("chart") == "karpenter"),
        None,
    )


def _on(block: TerraformBlock, message: str, field: str, fix: str = "", severity: str = "") -> Symptom:
    return Symptom(
        subject=block.subject, source=block.source, field=field, message=message, fix=fix, severity=severity
    )


def _placement(facts: DoctorFacts) -> Iterator[Symptom]:
    release = _release(facts)
    if release is None:
        return
    values = _values(release)
    wanted = {
        str(k): str(v) for k, v in mapping_at(values, "nodeSelector").items() if k != "kubernetes.io/os"
    }
    groups = [
        (module, name, g)
        for module in _modules(facts, karpenter=False)
        for name, g in _groups(module).items()
    ]
    fitting = [
        (name, group)
        for _, name, group in groups
        if wanted.items() <= {k: str(v).lower() for k, v in mapping_at(group, "labels").items()}.items()
    ]
    if wanted and groups and not fitting:
        text = ", ".join(f"{key}={value}" for key, value in wanted.items())
        yield _on(
            release, f"selects nodes with {text}, and no node group has that label", "values.nodeSelector"
        )
    for name, group in fitting if wanted else []:
        for taint in _taints(group):
            keys = [each.get("key") for each in list_at(values, "tolerations")]
            if taint.get("key") not in keys and None not in keys:
                message = f"does not tolerate the taint {taint.get('key')} of node group {name}"
                yield _on(release, message, "values.tolerations")


def _coredns(facts: DoctorFacts) -> Iterator[Symptom]:
    for module in _modules(facts, karpenter=False):
        groups = _groups(module)
        taints = {str(each.get("key")) for group in groups.values() for each in _taints(group)}
        if not groups or not all(_taints(group) for group in groups.values()):
            continue
        coredns = _addons(module).get("coredns")
        tolerated = str(at(coredns, "configuration_values", "")) if isinstance(coredns, dict) else ""
        missing = [each for each in taints if each not in tolerated]
        if missing:
            yield _on(
                module,
                f"every node group has a taint, and CoreDNS does not tolerate {listed(missing)}",
                "cluster_addons.coredns" if "cluster_addons" in module.body else "addons.coredns",
            )


def _agent(facts: DoctorFacts) -> Iterator[Symptom]:
    uses = [each for each in _modules(facts, karpenter=True) if _has_association(each)]
    addons = {
        str(each.body.get("addon_name")) for each in facts.terraform or () if each.type == "aws_eks_addon"
    }
    for module in _modules(facts, karpenter=False):
        if uses and AGENT not in _addons(module) and AGENT not in addons:
            yield _on(module, f"the operator uses pod identity, without the add-on {AGENT}", "cluster_addons")


def _has_association(module: TerraformBlock) -> bool:
    # Off by default in version 20, on in 21:
    # https://github.com/terraform-aws-modules/terraform-aws-eks/blob/master/docs/UPGRADE-21.0.md
    return module.body.get("create_pod_identity_association", _major(module) > 20) is True  # noqa: PLR2004


def _identity(facts: DoctorFacts) -> Iterator[Symptom]:
    for module in _modules(facts, karpenter=True):
        if not _has_association(module) and module.body.get("enable_irsa") is not True:
            yield _on(module, "gives the operator no role", "create_pod_identity_association")
    release = _release(facts)
    for module in _modules(facts, karpenter=True):
        mine = str(module.body.get("namespace", "kube-system"))
        if release is not None and "${" not in mine and str(release.body.get("namespace", mine)) != mine:
            message = f"the role is for namespace {mine}, and the chart goes to {release.body['namespace']}"
            yield _on(module, message, "namespace", f'set namespace = "{release.body["namespace"]}"')


def _discovery(facts: DoctorFacts) -> Iterator[Symptom]:
    classes = list(facts.classes())
    selecting = [each for each in classes if DISCOVERY in str(at(each.plain, "spec", {}))]
    if classes and not selecting:
        return
    for each in facts.terraform or ():
        source = str(each.body.get("source", ""))
        if each.type == "module" and source.startswith("terraform-aws-modules/vpc/aws"):
            tags = str(each.body.get("private_subnet_tags", "")) + str(each.body.get("intra_subnet_tags", ""))
            if DISCOVERY not in tags + str(each.body.get("tags", "")):
                yield _on(each, f"no subnet is tagged {DISCOVERY}", "private_subnet_tags")
    for module in _modules(facts, karpenter=False):
        fields = ("node_security_group_tags", "cluster_security_group_additional_rules", "tags")
        if not any(DISCOVERY in str(module.body.get(field, "")) for field in fields):
            yield _on(module, f"no security group is tagged {DISCOVERY}", "node_security_group_tags")


def _role_name(facts: DoctorFacts) -> Iterator[Symptom]:
    for module in _modules(facts, karpenter=True):
        cluster = str(module.body.get("cluster_name", ""))
        name = str(module.body.get("node_iam_role_name") or f"Karpenter-{cluster}")
        prefixed = module.body.get("node_iam_role_use_name_prefix", True) is not False
        for each in facts.classes():
            role = at(each.plain, "spec.role", "")
            if not role or "${" in role:
                continue
            if prefixed:
                message = f"gets a suffix that nothing knows, and EC2NodeClass {each.subject} names {role}"
                fix = f'set node_iam_role_use_name_prefix = false and node_iam_role_name = "{role}"'
                yield _on(
                    module, f"the name of the node role {message}", "node_iam_role_use_name_prefix", fix
                )
            elif "${" not in name and role != name:
                message = f"the node role is called {name}, and {each.subject} names {role}"
                yield _on(module, message, "node_iam_role_name", f'set node_iam_role_name = "{role}"')


def _access(facts: DoctorFacts) -> Iterator[Symptom]:
    entries = [each for each in facts.terraform or () if each.type == "aws_eks_access_entry"]
    for module in _modules(facts, karpenter=True):
        if module.body.get("create_access_entry") is False and not entries:
            yield _on(module, "nothing lets nodes into the cluster", "create_access_entry")
    for each in entries:
        people = each.body.get("type", "STANDARD") == "STANDARD"
        if people and "karpenter" in str(each.body).lower():
            message = "is STANDARD, which lets people in and not nodes"
            yield _on(each, message, "type", 'set type = "EC2_LINUX"')


def _queue(facts: DoctorFacts) -> Iterator[Symptom]:
    release = _release(facts)
    for module in _modules(facts, karpenter=True):
        makes = module.body.get("enable_spot_termination", True) is not False
        if release is None:
            continue
        queue = at(_values(release), "settings.interruptionQueue")
        if makes and not queue:
            yield _on(
                release,
                f"{module.subject} makes a queue, and the operator is not told",
                "values.settings.interruptionQueue",
                f"set it to ${{{module.subject}.queue_name}}",
                WARNING,
            )
        if not makes and queue and module.subject in str(queue):
            message = "makes no queue, and the operator is told one"
            yield _on(module, message, "enable_spot_termination", "remove enable_spot_termination = false")


def _permissions(facts: DoctorFacts) -> Iterator[Symptom]:
    release = _release(facts)
    version = parse_version(str(release.body.get("version", ""))) if release is not None else None
    for module in _modules(facts, karpenter=True):
        given = module.body.get("enable_v1_permissions")
        if _major(module) > 20 and given is not None:  # noqa: PLR2004  the version that dropped it
            message = (
                "version 21 of the module does not know it: its permissions are always those of version 1"
            )
            yield _on(module, message, "enable_v1_permissions", "remove it")
        elif _major(module) == 20 and given is not True and version is not None and version >= (1, 0, 0):  # noqa: PLR2004
            message = f"is not set, and the chart is {release.body.get('version') if release else ''}"
            yield _on(module, message, "enable_v1_permissions", "set enable_v1_permissions = true")


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
