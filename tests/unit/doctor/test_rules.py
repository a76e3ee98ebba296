"""The table of rules: whole, tested, and on its page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.doctor_reference import page

from karpenter.doctor.rule import PAGE, SEVERITIES
from karpenter.doctor.rules import RULES, SOURCES, diagnose
from tests.unit.doctor import (
    test_identity,
    test_installation,
    test_logs,
    test_network,
    test_nodepools,
    test_policies,
    test_quotas,
    test_terraform,
    test_workloads,
)
from tests.unit.doctor.world import CLASS, OPERATOR, POOL, WORKLOAD, changed, facts

ROOT = Path(__file__).parents[3]
TESTED = (
    test_installation,
    test_identity,
    test_network,
    test_policies,
    test_nodepools,
    test_quotas,
    test_workloads,
    test_terraform,
    test_logs,
)


def test_every_rule_has_a_broken_and_a_sound_example() -> None:
    """A rule without an example is not in the table, and the reverse."""
    assert [case.rule for module in TESTED for case in module.CASES] == [rule.id for rule in RULES]


def test_names_are_anchors() -> None:
    """A rule is called so that its heading has the same anchor everywhere, and once."""
    names = [rule.id for rule in RULES]

    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)] == []


def test_every_rule_says_what_helps() -> None:
    """A rule has a severity, what is wrong, why it matters, what helps, and sources that are known."""
    for rule in RULES:
        assert rule.severity in SEVERITIES
        assert rule.title.endswith(".")
        assert rule.why.endswith(".")
        assert rule.fix
        assert not rule.fix.endswith(".")
        assert {need.partition(".")[0] for need in rule.needs} <= SOURCES.keys()


def test_the_page_lists_the_table() -> None:
    """The reference is written from the table by `make doctor`, and every rule has its heading."""
    text = (ROOT / PAGE).read_text("utf-8")

    assert text == page()
    assert [rule.id for rule in RULES if f"\n### {rule.id}\n" not in text] == []


def test_nothing_known_means_nothing_said() -> None:
    """Without facts every rule is skipped, with a reason."""
    found = diagnose(facts())

    assert (found.findings, found.checked) == ((), 0)
    assert sum(len(each.rules) for each in found.skipped) == len(RULES)


def test_the_reason_of_a_source_that_failed() -> None:
    """What could not be read is said in the words of what went wrong."""
    known = facts(CLASS, unread={"aws.roles": "roles could not be read: AccessDenied"})
    reasons = [each.reason for each in diagnose(known).skipped if "node-role" in each.rules]

    assert reasons == ["roles could not be read: AccessDenied"]


def test_errors_come_first() -> None:
    """Findings are sorted by how bad they are, and rules can be left out."""
    text = changed(POOL, ('  limits: {cpu: "1000"}\n', ""), ("[us-west-2a, us-west-2b]", "[us-west-2x]"))
    found = diagnose(facts(text, CLASS))

    assert [each.severity for each in found.findings] == ["error", "warning"]
    assert [each.rule for each in diagnose(facts(text, CLASS), ignore=["zone-unknown"]).findings] == [
        "nodepool-limits"
    ]


@pytest.mark.parametrize("live", [False, True])
def test_a_sound_installation(live: bool) -> None:
    """The sound examples together have nothing wrong but what a live cluster must also have."""
    found = diagnose(facts(POOL, CLASS, OPERATOR, WORKLOAD, live=live), ignore=["crd-version"])

    assert [str(each) for each in found.findings] == []
