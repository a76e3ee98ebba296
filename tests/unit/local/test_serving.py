"""What ``karpenter local up`` starts."""

from pathlib import Path

import pytest

from karpenter.api.kwoknodeclass import KWOKNodeClass
from karpenter_local.apiserver.notice import ClusterDirectory
from karpenter_local.serving import LocalOptions, local_sandbox


@pytest.mark.parametrize(
    ("node_class", "expected"),
    [pytest.param(True, ["default"], id="by default"), pytest.param(False, [], id="unless told not to")],
)
async def test_the_node_class(tmp_path: Path, node_class: bool, expected: list[str]) -> None:
    """A KWOKNodeClass comes with the operator."""
    options = LocalOptions(with_karpenter=True, node_class=node_class)

    async with local_sandbox(options, ClusterDirectory(tmp_path)) as sandbox:
        found = (await sandbox.client.list(KWOKNodeClass)).items

    assert [each.name for each in found] == expected
