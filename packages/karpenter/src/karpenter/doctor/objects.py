"""
Rules about one NodePool or one EC2NodeClass, whatever else is there.

The doctor checks them with all others, ``karpenter validate`` in files, and ``karpenter plan`` and ``why``
say what of it decides which machines are launched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from karpenter.api.ec2nodeclass import AL2023, EC2NodeClassSpec
from karpenter.api.manifests import Document
from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData, Bootstrap
from karpenter.cloud.aws.amifamily.bootstrap.nodeadm import script_problem
from karpenter.cloud.aws.amifamily.bootstrap.userdata import render_user_data
from karpenter.cloud.aws.amifamily.family import family_of
from karpenter.doctor.facts import at, list_at, mapping_at, text_at, texts_at
from karpenter.doctor.labels import some_type_meets, value_problem
from karpenter.doctor.rule import ERROR, WARNING, Symptom, on

EC2_GROUP: Final = "karpenter.k8s.aws"
REQUIREMENTS: Final = "spec.template.spec.requirements"
NODE_POOL: Final = "NodePool"
NODE_CLASS: Final = "EC2NodeClass"
_PLACEHOLDER: Final = re.compile(r"\$\{?[A-Za-z_][A-Za-z_0-9]*\}?|<<.+?>>|<[a-z][a-z-]*>")


class ObjectRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule about one object; the fields are those of a DoctorRule."""

    id: str
    severity: str
    title: str
    fix: str
    why: str
    check: Callable[[Document], Iterator[Symptom]]
    kinds: tuple[str, ...]
    """The kinds that it is about."""

    decides: bool = False
    """Whether what it finds changes which machines are launched."""

    link: str = ""


class ObjectFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule has found in one object."""

    rule: str
    severity: str
    decides: bool
    source: str
    object: str
    field: str
    message: str
    fix: str

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.source, self.object, self.field) if part)
        return f"{self.severity}: {place}: {self.message}; fix: {self.fix}"


def object_findings(document: Document) -> Iterator[ObjectFinding]:
    """Yield what is wrong with a NodePool or an EC2NodeClass by itself; nothing of other kinds."""
    version, kind = document.identity
    for rule in OBJECT_RULES:
        if kind not in rule.kinds or not version.startswith(("karpenter.sh/", f"{EC2_GROUP}/")):
            continue
        for found in rule.check(document):
            yield ObjectFinding(
                rule=rule.id,
                severity=found.severity or rule.severity,
                decides=rule.decides,
                source=found.source,
                object=found.subject,
                field=found.field,
                message=found.message,
                fix=found.fix or rule.fix,
            )


def _placeholder(each: Document) -> Iterator[Symptom]:
    spec = {key: value for key, value in mapping_at(each.plain, "spec").items() if key != "userData"}
    for field, text in _texts(spec, "spec"):
        if _PLACEHOLDER.search(text):
            yield on(each, f"{text!r} has a placeholder that was not filled in", field=field)


def _texts(plain: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from _texts(value, f"{path}.{key}")
    elif isinstance(plain, list):
        for number, value in enumerate(plain):
            yield from _texts(value, f"{path}[{number}]")
    elif isinstance(plain, str):
        yield path, plain


def requirements_of(pool: Document) -> list[dict[str, Any]]:
    return list_at(pool.plain, REQUIREMENTS)


def buys_from_ec2(pool: Document) -> bool:
    return bool(at(pool.plain, "spec.template.spec.nodeClassRef.group", EC2_GROUP) == EC2_GROUP)


def _label_value(pool: Document) -> Iterator[Symptom]:
    for number, each in enumerate(requirements_of(pool) if buys_from_ec2(pool) else ()):
        yield from wrong_values(pool, each, f"{REQUIREMENTS}[{number}].values")


def wrong_values(document: Document, requirement: dict[str, Any], field: str) -> Iterator[Symptom]:
    key, operator = text_at(requirement, "key"), text_at(requirement, "operator")
    values = texts_at(requirement, "values")
    if operator not in {"In", "NotIn"}:
        return
    problems = [found for value in values if (found := value_problem(key, value)) is not None]
    for each in problems:
        nothing_left = operator == "In" and len(problems) == len(values)
        meant = f"; did you mean {each.meant!r}?" if each.meant else ""
        effect = "so that nothing matches" if nothing_left else "so that it has no effect"
        yield on(
            document,
            f"{key} is never {each.value!r}, {effect}{meant}",
            field=field,
            fix=f"write {each.meant}" if each.meant else "leave it out; karpenter catalog lists the types",
            severity=ERROR if nothing_left and each.certain else WARNING,
        )


def _empty(pool: Document) -> Iterator[Symptom]:
    requirements = requirements_of(pool)
    said = any(True for each in requirements for _ in wrong_values(pool, each, ""))
    if buys_from_ec2(pool) and not said and not some_type_meets(requirements):
        yield on(pool, "no instance type of EC2 meets all of them", field=REQUIREMENTS)


def _spec(each: Document) -> EC2NodeClassSpec | None:
    try:
        return msgspec.convert(each.plain.get("spec"), EC2NodeClassSpec)
    except msgspec.ValidationError:
        return None  # invalid-object says so


def _user_data_script(each: Document) -> Iterator[Symptom]:
    spec = _spec(each)
    if spec is None or spec.family != AL2023:
        return
    try:
        problem = script_problem(spec.user_data or "")
    except BadUserData:
        return  # user-data says so
    if problem:
        yield on(each, problem, field="spec.userData")


def _user_data(each: Document) -> Iterator[Symptom]:
    spec = _spec(each)
    if spec is None:
        return
    node = Bootstrap(cluster="c", endpoint="https://c", ca_bundle="", custom=spec.user_data or "")
    try:
        render_user_data(family_of(spec.family), node)
    except BadUserData as error:
        yield on(each, str(error), field="spec.userData")


def _zero_budget(pool: Document) -> Iterator[Symptom]:
    for number, each in enumerate(list_at(pool.plain, "spec.disruption.budgets")):
        always = not each.get("schedule") and not each.get("reasons")
        if always and str(each.get("nodes")) in {"0", "0%"}:
            message = "is 0 at all times: nodes never drift, consolidate or get new images"
            yield on(pool, message, field=f"spec.disruption.budgets[{number}].nodes")


OBJECT_RULES: Final = (
    ObjectRule(
        id="placeholder",
        severity=ERROR,
        title="A manifest still has a placeholder in it.",
        fix="fill it in; a heredoc without quotes around EOF lets the shell do so",
        why="The text is taken as it is, and no role, tag or subnet is called that.",
        check=_placeholder,
        kinds=(NODE_POOL, NODE_CLASS),
        decides=True,
    ),
    ObjectRule(
        id="label-value",
        severity=ERROR,
        title="A NodePool asks for a label value that no node has.",
        fix="write the value as nodes carry it; most are lower case",
        why="The requirement matches nothing (In), or excludes nothing (NotIn).",
        check=_label_value,
        kinds=(NODE_POOL,),
        decides=True,
        link="https://karpenter.sh/docs/reference/instance-types/",
    ),
    ObjectRule(
        id="nodepool-empty",
        severity=ERROR,
        title="No instance type meets all requirements of a NodePool.",
        fix="karpenter plan --catalog aws -f FILE says which requirement excludes what",
        why="The pool is accepted and launches nothing.",
        check=_empty,
        kinds=(NODE_POOL,),
        decides=True,
    ),
    ObjectRule(
        id="user-data",
        severity=ERROR,
        title="The user data of an EC2NodeClass cannot be merged with what its image family needs.",
        fix="write it as the family reads it: TOML for Bottlerocket, a script or a MIME archive else",
        why="The class does not become ready, and nothing is launched for it.",
        check=_user_data,
        kinds=(NODE_CLASS,),
        decides=True,
        link="https://karpenter.sh/docs/concepts/nodeclasses/#specuserdata",
    ),
    ObjectRule(
        id="user-data-script",
        severity=WARNING,
        title="The user data of an EC2NodeClass is no NodeConfig, and no script that can run.",
        fix="put the YAML of the NodeConfig right, or begin a script with #!/bin/bash",
        why="Karpenter runs what is no NodeConfig as a script; nodes start without what it was to set.",
        check=_user_data_script,
        kinds=(NODE_CLASS,),
        link="https://karpenter.sh/docs/concepts/nodeclasses/#specuserdata",
    ),
    ObjectRule(
        id="budget-zero",
        severity=WARNING,
        title="A NodePool allows no disruption, ever.",
        fix="give the budget a schedule and a duration",
        why="Nodes never get new images and are never consolidated; only expiry and interruptions end them.",
        check=_zero_budget,
        kinds=(NODE_POOL,),
        link="https://karpenter.sh/docs/concepts/disruption/#nodepool-disruption-budgets",
    ),
)
