from __future__ import annotations

import msgspec
import pytest

from karpenter.cloud.catalogs.load import load_catalog
from karpenter.top.model import NodeRow
from karpenter.top.prices import prices_of


def _row(way: str = "", kind: str = "m5.large", zone: str = "us-east-1a") -> NodeRow:
    return NodeRow(name="a", instance_type=kind, capacity_type=way, zone=zone)


def test_prices() -> None:
    """On-demand, reserved and unknown cost the on-demand price, spot less; what is not sold has no price."""
    price = prices_of(load_catalog("aws"))
    assert price(_row("on-demand")) == 0.096
    assert price(_row("reserved")) == price(_row()) == 0.096
    spot = price(_row("spot"))
    assert spot is not None
    assert 0 < spot < 0.096
    assert price(_row("on-demand", zone="elsewhere")) == 0.096
    assert price(_row("on-demand", kind="none")) is None
    assert prices_of(None)(_row("on-demand")) is None


def test_fargate_costs_what_was_provisioned() -> None:
    """So much for each vCPU and each GB; a size that cannot be read has no price."""
    price = prices_of(None)
    assert price(_row("fargate", "0.25vCPU-0.5GB")) == pytest.approx(0.25 * 0.04048 + 0.5 * 0.004445)
    assert price(_row("fargate", "")) is None


def test_a_region_with_a_price_list_only() -> None:
    """GovCloud and China have on-demand prices, and spot is modelled from them; no catalogue is needed."""
    price = prices_of(None, "cn-north-1")
    full, spot = price(_row("on-demand")), price(_row("spot", zone="cn-north-1a"))
    assert full is not None
    assert spot is not None
    assert full > 0.2  # yuan
    assert 0 < spot < full
    assert price(_row("on-demand", kind="none")) is None
    assert price(_row("spot", kind="none")) is None


@pytest.mark.parametrize(
    ("way", "kind", "fees", "fee"),
    [
        pytest.param("on-demand", "m5.large", {}, 0.12 * 0.096, id="a share of the on-demand price"),
        pytest.param("spot", "m5.large", {}, 0.12 * 0.096, id="which a spot node costs too"),
        pytest.param("on-demand", "m5.large", {"m5.large": 0.02}, 0.02, id="what AWS told"),
    ],
)
def test_nodes_of_auto_mode_cost_a_fee(way: str, kind: str, fees: dict[str, float], fee: float) -> None:
    """EKS Auto Mode charges for managing a node, beside what EC2 charges for it."""
    price = prices_of(load_catalog("aws"), "us-east-1", fees)
    plain, managed = price(_row(way, kind)), price(msgspec.structs.replace(_row(way, kind), auto=True))
    assert plain is not None
    assert managed == pytest.approx(plain + fee)
