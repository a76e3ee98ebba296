"""How an answer is worked out: with few decisions, none of them proved."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from karpenter.api.manifests import render_documents
from karpenter.cli.files import SourceText
from karpenter.cli.planning.input import read_input
from karpenter.cli.why import inquiry_of
from karpenter.cloud.catalogs.load import load_catalog
from karpenter.operator.options import parse_settings
from karpenter.why.targets import explain
from tests.unit.why.clusters import machine, pod, pool, write_catalogue

if TYPE_CHECKING:
    from pathlib import Path

    from karpenter.core.provisioning.provisioner import ProvisioningDecision
    from karpenter.core.state.cluster import ClusterView

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
FULL = [*machine("n"), pod("x", "4", nodeName="n")]


@pytest.mark.parametrize(
    ("objects", "most"),
    [
        pytest.param([pool(), pod("a", "1", "40Gi")], 2, id="too large"),
        pytest.param([pool(limits={"cpu": "4"}), *FULL, pod("a")], 3, id="at the limit"),
        pytest.param(
            [
                *(
                    pool(f"p{number}", template={"taints": [{"key": "k", "effect": "NoSchedule"}]})
                    for number in range(20)
                ),
                pod("a"),
            ],
            2,
            id="twenty NodePools with one taint",
        ),
        pytest.param(
            [*(pool(f"p{number}") for number in range(20)), pod("a", "99")], 3, id="twenty NodePools"
        ),
    ],
)
def test_a_refused_pod_takes_few_decisions_and_no_proof(
    objects: list[dict[str, Any]], most: int, tmp_path: Path
) -> None:
    """One decision says what refuses the pod, and one for each change says whether it helps."""
    text = SourceText("cluster", render_documents(objects))
    view = read_input((), texts=[text]).view
    inquiry = inquiry_of(view, load_catalog(write_catalogue(tmp_path)), parse_settings({}), NOON)
    asked: list[ClusterView] = []

    def ask(changed: ClusterView) -> ProvisioningDecision:
        asked.append(changed)
        decision = inquiry.ask(changed)
        assert decision.plan.cost.lower_bound == 0
        return decision

    def proved(_: object) -> Any:
        raise AssertionError("a bound was worked out")

    answer = explain(msgspec.structs.replace(inquiry, ask=ask, provision=proved, disrupt=proved), "pod", "a")

    assert not answer.placed
    assert len(asked) <= most
