"""Security groups: which are found."""

from typing import Any

import pytest

from karpenter.api.ec2nodeclass import SecurityGroupSelectorTerm
from karpenter.api.ec2nodeclass_status import SecurityGroup
from karpenter.api.meta import convert
from karpenter.cloud.aws.sdk import AwsApi
from karpenter.cloud.aws.securitygroup import SecurityGroupProvider
from karpenter_local.virtual import run_virtual
from tests.unit.cloud.aws.world import CLUSTER, shared_world

OURS = {"karpenter.sh/discovery": CLUSTER}


def find(*plain: dict[str, Any]) -> tuple[SecurityGroup, ...]:
    async def main() -> tuple[SecurityGroup, ...]:
        aws = AwsApi(shared_world().clients)
        terms = tuple(convert(each, SecurityGroupSelectorTerm) for each in plain)
        found = await SecurityGroupProvider(aws, monotonic=lambda: 0.0).find(terms)
        aws.close()
        return found

    return run_virtual(main())


@pytest.mark.parametrize(
    ("plain", "which"),
    [
        pytest.param([{"tags": OURS}], {0, 1}, id="by a tag and its value"),
        pytest.param([{"tags": {"karpenter.sh/discovery": "*"}}], {0, 1}, id="by any value of a tag"),
        pytest.param([{"tags": {"no": "such"}}], set(), id="by a tag that nothing has"),
        pytest.param([{"id": 1}], {1}, id="by id"),
        pytest.param([{"id": 0}, {"id": 1}], {0, 1}, id="by several ids"),
        pytest.param([{"name": f"{CLUSTER}-nodes"}], {0}, id="by name"),
        pytest.param([{"name": f"{CLUSTER}-*"}], {0, 1}, id="by a pattern of the name"),
        pytest.param([{"name": f"{CLUSTER}-nodes", "tags": OURS}], {0}, id="by name and tag at once"),
        pytest.param(
            [{"name": f"{CLUSTER}-nodes", "tags": {"no": "such"}}], set(), id="by both, or not at all"
        ),
        pytest.param([{"id": 1}, {"name": f"{CLUSTER}-nodes"}], {0, 1}, id="by any of several terms"),
        pytest.param([{"id": 1, "name": f"{CLUSTER}-nodes"}], {1}, id="an id wins over a name"),
    ],
)
def test_selecting(plain: list[dict[str, Any]], which: set[int]) -> None:
    """Security groups are found by what their terms say, and are in the order of their ids."""
    ids = shared_world().estate.groups
    asked = [{**each, "id": ids[each["id"]]} if "id" in each else each for each in plain]
    found = find(*asked)

    assert [each.id for each in found] == sorted(ids[number] for number in which)


def test_names_are_told() -> None:
    """A group that was found says its name."""
    (found,) = find({"name": f"{CLUSTER}-pods"})

    assert found.name == f"{CLUSTER}-pods"
