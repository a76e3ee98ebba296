"""
The table of all rules, and how they are run.

A rule runs when every source that it needs is known; otherwise it is skipped, and the reason is said once for
all rules that miss the same source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from karpenter.doctor import identity, installation, logs, network, nodepools, quotas, terraform, workloads
from karpenter.doctor.facts import DoctorFacts, KindDenied, operator_of
from karpenter.doctor.rule import SEVERITIES, DoctorFinding, DoctorRule

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


TOPICS: Final[tuple[tuple[str, tuple[DoctorRule, ...]], ...]] = (
    ("Installation", installation.RULES),
    ("Identity and access", identity.RULES),
    ("Network and interruptions", network.RULES),
    ("IAM policies", identity.POLICY_RULES),
    ("NodePools and node classes", nodepools.RULES),
    ("Quotas", quotas.RULES),
    ("Workloads", workloads.RULES),
    ("Terraform", terraform.RULES),
    ("Logs", logs.RULES),
)
RULES: Final = tuple(rule for _, rules in TOPICS for rule in rules)

SOURCES: Final = {
    "objects": "no manifests and no cluster: give -f or --context",
    "live": "no live cluster: give --context",
    "kubernetes": "the version of Kubernetes is not known: give --context, or --region and --cluster",
    "charts": "no chart is stated: neither by a release in the cluster nor by a manifest",
    "operator": "no installation of the operator was found",
    "aws": "no AWS account: give --region and --cluster",
    "policies": "no IAM policy: give --policy FILE",
    "logs": "no log: give --log FILE",
    "terraform": "no Terraform: give --terraform DIR",
}


class SkippedRules(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that were not checked, and why."""

    reason: str
    rules: tuple[str, ...]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and what was not checked."""

    findings: tuple[DoctorFinding, ...]
    checked: int
    skipped: tuple[SkippedRules, ...] = ()

    def count(self, severity: str) -> int:
        """Return how many findings have a severity."""
        return sum(each.severity == severity for each in self.findings)


def diagnose(facts: DoctorFacts, *, ignore: Collection[str] = ()) -> Diagnosis:
    """Return everything that is wrong, the worst first; rules in `ignore` are not looked at."""
    findings: list[DoctorFinding] = []
    skipped: dict[str, list[str]] = {}
    rules = [rule for rule in RULES if rule.id not in ignore]
    for rule in rules:
        try:
            reason = _missing(facts, rule)
            if not reason:
                findings.extend(_findings(facts, rule))  # what was found before a kind is missed stays
        except KindDenied as denied:
            reason = str(denied)
        if reason:
            skipped.setdefault(reason, []).append(rule.id)
    findings.sort(key=lambda each: SEVERITIES.index(each.severity))
    return Diagnosis(
        findings=tuple(dict.fromkeys(findings)),
        checked=len(rules) - sum(map(len, skipped.values())),
        skipped=tuple(SkippedRules(reason=key, rules=tuple(value)) for key, value in skipped.items()),
    )


def _findings(facts: DoctorFacts, rule: DoctorRule) -> Iterator[DoctorFinding]:
    for symptom in rule.check(facts):
        yield DoctorFinding(
            rule=rule.id,
            severity=symptom.severity or rule.severity,
            object=symptom.subject,
            field=symptom.field,
            message=symptom.message,
            fix=symptom.fix or rule.fix,
            anchor=rule.anchor,
            source=symptom.source,
        )


def _missing(facts: DoctorFacts, rule: DoctorRule) -> str:
    """Say which source a rule misses; empty where it misses none."""
    for need in rule.needs:
        if not _known(facts, need):
            return facts.unread.get(need) or _default(facts, need)
    return ""


def _default(facts: DoctorFacts, need: str) -> str:
    top = need.partition(".")[0]
    return facts.unread.get(top) or SOURCES[top]


def _known(facts: DoctorFacts, need: str) -> bool:
    if need == "operator":
        return operator_of(facts) is not None
    if need == "policies":
        return identity.policy_texts(facts) is not None
    found: Any = facts
    for step in need.split("."):
        found = getattr(found, step)
    return found is not None and found is not False
