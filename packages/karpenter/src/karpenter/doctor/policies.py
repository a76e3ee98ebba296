"""
Rules about IAM policies: those of files, and those of the operator's role.

The judging is done by :mod:`karpenter.cloud.aws.policy.lint`, with line and column; here its findings get a
severity, a fix and a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karpenter.cloud.aws.policy.lint import (
    is_controller_policy,
    lint_policy,
    missing_actions,
    repaired_document,
)
from karpenter.doctor.facts import controller_role, queue_name
from karpenter.doctor.rule import ERROR, INFO, WARNING, DoctorRule, Symptom, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from karpenter.doctor.facts import DoctorFacts, PolicyText

_SHIFT: Final = "arc-zonal-shift:"
_QUEUE: Final = "sqs:"


def policy_texts(facts: DoctorFacts) -> tuple[PolicyText, ...] | None:
    """Return the policies that are judged: those that were given, and those of the operator's role."""
    role = facts.aws.role(controller_role(facts))
    attached = role.policies if role is not None else ()
    if facts.policies is None and not attached:
        return None
    return (*(facts.policies or ()), *attached)


def _linted(*rules: str) -> Callable[[DoctorFacts], Iterator[Symptom]]:
    """Return the check that passes on what some rules of the linter find."""

    def check(facts: DoctorFacts) -> Iterator[Symptom]:
        for policy in policy_texts(facts) or ():
            for found in lint_policy(policy.text, sort=policy.sort):
                if found.rule in rules:
                    number = f"Statement[{found.statement}]" if found.statement else "policy"
                    yield Symptom(
                        subject=f"{policy.source}:{found.line}:{found.column}",
                        field=number,
                        message=found.message,
                        fix=found.hint,
                        severity=found.severity,
                    )

    return check


def _missing(facts: DoctorFacts) -> Iterator[Symptom]:
    texts = policy_texts(facts) or ()
    documents = [found for each in texts if (found := repaired_document(each.text)) is not None]
    if not documents or not is_controller_policy(documents):
        return
    missing = missing_actions(documents)
    needs_queue = bool(queue_name(facts))
    optional = [
        each for each in missing if each.startswith(_SHIFT) or (each.startswith(_QUEUE) and not needs_queue)
    ]
    required = [each for each in missing if each not in optional]
    subject = listed({each.source for each in texts}, most=2)
    if required:
        yield Symptom(subject=subject, field="Action", message=f"allows no {', '.join(required)}")
    if optional:
        yield Symptom(
            subject=subject,
            field="Action",
            message=f"allows no {', '.join(optional)}, needed for an interruption queue and zonal shift",
            severity=INFO,
        )


_GRAMMAR: Final = "https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html"
_LEAST: Final = "https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html"

RULES: Final = (
    DoctorRule(
        id="policy-json",
        severity=ERROR,
        title="A policy is not JSON.",
        fix="correct the text; IAM refuses it as it is",
        why="IAM refuses it with MalformedPolicyDocument and does not say where.",
        check=_linted("invalid-json"),
        needs=("policies",),
        link=_GRAMMAR,
    ),
    DoctorRule(
        id="policy-grammar",
        severity=ERROR,
        title="A policy breaks the grammar of IAM.",
        fix="correct the element",
        why="IAM refuses it, or the statement says something else than meant.",
        check=_linted(
            "no-statement", "version", "unknown-key", "effect", "duplicate-sid", "bad-action", "not-resource"
        ),
        needs=("policies",),
        link=_GRAMMAR,
    ),
    DoctorRule(
        id="policy-wildcard-action",
        severity=ERROR,
        title="A policy allows every action of a service.",
        fix="list the actions; karpenter manifests --iam REGION/ACCOUNT prints the policies that are needed",
        why="With ec2:* and iam:* a pod of the cluster can make itself administrator of the account.",
        check=_linted("wildcard-action", "not-action"),
        needs=("policies",),
        link=_LEAST,
    ),
    DoctorRule(
        id="policy-condition",
        severity=WARNING,
        title="A policy allows changes of every resource, without a condition.",
        fix="narrow it by the tags kubernetes.io/cluster/CLUSTER and karpenter.sh/nodepool",
        why="The operator of one cluster may terminate the instances of another.",
        check=_linted("unconditional-change"),
        needs=("policies",),
        link="https://karpenter.sh/docs/reference/cloudformation/",
    ),
    DoctorRule(
        id="policy-pass-role",
        severity=ERROR,
        title="A policy allows passing every role.",
        fix="name the role of the nodes as the resource of iam:PassRole",
        why="An instance with an administrator's role can be launched.",
        check=_linted("pass-any-role"),
        needs=("policies",),
        link="https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html",
    ),
    DoctorRule(
        id="policy-misspelt-action",
        severity=ERROR,
        title="A policy names an action that is nearly one that the operator calls.",
        fix="correct the spelling",
        why="IAM accepts actions that do not exist, and allows nothing by them.",
        check=_linted("misspelt-action"),
        needs=("policies",),
    ),
    DoctorRule(
        id="policy-size",
        severity=ERROR,
        title="A policy is longer than IAM takes.",
        fix="split it into several managed policies, as karpenter manifests --iam does",
        why="IAM refuses it with LimitExceeded.",
        check=_linted("too-long"),
        needs=("policies",),
        link="https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html",
    ),
    DoctorRule(
        id="policy-missing-action",
        severity=ERROR,
        title="The policies of the operator lack actions that it calls.",
        fix="add the statements of karpenter manifests --iam REGION/ACCOUNT",
        why="Calls are refused with UnauthorizedOperation. All policies that are given are taken together; "
        "they are taken for those of the operator where they allow ec2:CreateFleet.",
        check=_missing,
        needs=("policies",),
    ),
)
