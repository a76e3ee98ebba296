"""Rules about quotas of vCPUs, and what counts against which."""

from __future__ import annotations

from typing import Any

import pytest

from karpenter.cloud.catalogs.ec2.data import load_data
from karpenter.doctor.facts import QuotaFacts, cluster_name, region_of_cluster
from karpenter.doctor.quotas import quota_code
from tests.unit.doctor.world import CLASS, OPERATOR, POOL, Case, account, changed, facts, judge, judged

ON_DEMAND, SPOT, GPU = "L-1216C47A", "L-34B43A08", "L-DB2E81BA"
NAME = "Running On-Demand Standard instances"


def quotas(used: int = 0, **limits: float) -> dict[str, Any]:
    """Return facts with quotas, given by the codes without their first letters."""
    found = tuple(
        QuotaFacts(code=code.replace("_", "-"), name=NAME, limit=limit, used=used)
        for code, limit in limits.items()
    )
    return {"aws": account(quotas=found)}


def wants(requirement: str, capacity_types: str = "on-demand") -> str:
    """Return a pool that wants these machines, bought so."""
    return changed(POOL, ("[spot, on-demand]", f"[{capacity_types}]"), (ZONES, requirement))


ZONES = "{key: topology.kubernetes.io/zone, operator: In, values: [us-west-2a, us-west-2b]}"
GPUS = "{key: karpenter.k8s.aws/instance-category, operator: In, values: [g]}"


CASES = [
    Case(
        "quota-used",
        facts(**quotas(used=52, L_1216C47A=64)),
        facts(**quotas(used=51, L_1216C47A=64)),
        f"{NAME} is nearly used up in us-west-2: 52 of 64 vCPUs run",
        "warning",
    ),
    Case(
        "quota-too-small",
        facts(wants(GPUS), **quotas(L_DB2E81BA=0)),
        facts(wants(GPUS), **quotas(L_DB2E81BA=4)),
        f"the account may run no instance type that it allows ({NAME}: 0 vCPUs)",
    ),
]
MORE = [
    Case(
        "quota-used",
        facts(**quotas(used=64, L_1216C47A=64)),
        facts(**quotas(used=0, L_1216C47A=0)),
        f"{NAME} is used up in us-west-2: 64 of 64 vCPUs run",
    ),
    Case(
        "quota-too-small",
        facts(wants(GPUS, "spot, on-demand"), **quotas(L_DB2E81BA=0, L_3819A6DF=1)),
        facts(wants(GPUS, "spot, on-demand"), **quotas(L_DB2E81BA=0, L_3819A6DF=4)),
        "the account may run no instance type that it allows",
    ),
]


@pytest.mark.parametrize(
    "case", CASES + MORE, ids=["nearly used up", "no GPUs", "used up", "no GPUs in either way"]
)
def test_rule(case: Case) -> None:
    """A quota that nothing counts against is none to speak of, however small."""
    judge(case)


def test_the_command_asks_for_twice_as_much() -> None:
    """It can be pasted."""
    [finding], _ = judged("quota-used", facts(**quotas(used=60, L_1216C47A=64)))

    assert finding.fix == (
        "aws service-quotas request-service-quota-increase --service-code ec2"
        f" --quota-code {ON_DEMAND} --desired-value 128 --region us-west-2"
    )


@pytest.mark.parametrize(
    ("instance_type", "capacity_type", "code"),
    [
        pytest.param("m5.large", "on-demand", ON_DEMAND, id="standard"),
        pytest.param("im4gn.large", "spot", SPOT, id="standard, with two letters"),
        pytest.param("g5.xlarge", "on-demand", GPU, id="GPUs"),
        pytest.param("gr6.4xlarge", "on-demand", GPU, id="GPUs with more memory"),
        pytest.param("inf2.xlarge", "spot", "L-B5D1601B", id="Inferentia is no I"),
        pytest.param("dl1.24xlarge", "spot", "L-85EED4F7", id="DL is no D"),
        pytest.param("u-6tb1.metal", "on-demand", "L-43DA4232", id="high memory"),
        pytest.param("hpc6a.48xlarge", "spot", "", id="HPC is not sold as spot"),
        pytest.param("mac1.metal", "on-demand", "", id="Macs are hosts"),
    ],
)
def test_what_counts_against_which_quota(instance_type: str, capacity_type: str, code: str) -> None:
    """The letters of the family decide, all of them."""
    assert quota_code(instance_type, capacity_type) == code


def test_every_type_counts_against_a_quota() -> None:
    """All but Macs, which run on hosts."""
    unknown = {each.name for each in load_data().types if not quota_code(each.name, "on-demand")}

    assert {name for name in unknown if not name.startswith("mac")} == set()


def test_a_pool_of_other_families_is_not_judged_by_the_quotas_that_are_known() -> None:
    """A quota that AWS does not list may be of any size."""
    assert judged("quota-too-small", facts(POOL, **quotas(L_DB2E81BA=0)))[0] == ()


NODE = """
---
apiVersion: v1
kind: Node
metadata: {name: a}
spec: {providerID: "aws:///ZONE/i-1"}
"""


@pytest.mark.parametrize(
    ("zones", "region"),
    [
        pytest.param(("us-west-2a", "us-west-2b"), "us-west-2", id="zones of one region"),
        pytest.param(("us-west-2-lax-1a",), "us-west-2", id="a local zone"),
        pytest.param(("us-gov-east-1a",), "us-gov-east-1", id="another partition"),
        pytest.param(("us-west-2a", "eu-west-1a"), "", id="two regions"),
        pytest.param((), "", id="no node"),
    ],
)
def test_the_region_is_that_of_the_machines(zones: tuple[str, ...], region: str) -> None:
    """The provider's id of a node names its zone."""
    assert region_of_cluster(facts(POOL, *(NODE.replace("ZONE", each) for each in zones))) == region


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        pytest.param((OPERATOR, changed(CLASS, ("discovery: blue", "discovery: x"))), "blue", id="operator"),
        pytest.param((changed(CLASS, ("discovery: blue", "discovery: green")),), "green", id="a class"),
        pytest.param((POOL,), "", id="nothing says it"),
    ],
)
def test_the_name_of_the_cluster(texts: tuple[str, ...], name: str) -> None:
    """The operator's setting counts, else the tag that the classes select by."""
    assert cluster_name(facts(*texts, cluster="")) == name
