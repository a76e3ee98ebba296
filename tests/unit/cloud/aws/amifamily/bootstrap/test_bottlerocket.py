"""What users say to Bottlerocket, merged with what we say."""

import tomllib
from typing import Any

import pytest

from karpenter.cloud.aws.amifamily.bootstrap.bootstrap import BadUserData
from tests.unit.cloud.aws.amifamily.bootstrap.test_userdata import rendered

BOTTLEROCKET = """\
[settings.kubernetes]
kube-api-qps = 30
cluster-name = "not-yours"
unheard-of = true
[settings.kubernetes.node-labels]
"mine" = "yes"
"karpenter.sh/nodepool" = "not-yours"
[settings.kubernetes.credential-providers.ecr]
enabled = true
unheard-of = 1
[settings.bootstrap-commands.mine]
commands = [["true"]]
mode = "once"
essential = false
[settings.ntp]
time-servers = ["169.254.169.123"]
"""


class TestBottlerocketMerging:
    """What users say to Bottlerocket."""

    @pytest.fixture
    def found(self) -> dict[str, Any]:
        """Return settings, ours and theirs."""
        settings: dict[str, Any] = tomllib.loads(rendered("Bottlerocket", custom=BOTTLEROCKET, raid0=True))
        return dict(settings["settings"])

    def test_settings_that_are_known_stay(self, found: dict[str, Any]) -> None:
        """Also those that are deep down."""
        assert found["kubernetes"]["kube-api-qps"] == 30
        assert found["kubernetes"]["credential-providers"] == {"ecr": {"enabled": True}}

    def test_what_is_ours_wins(self, found: dict[str, Any]) -> None:
        """A machine joins the cluster that launches it."""
        assert found["kubernetes"]["cluster-name"] == "test-cluster"

    def test_labels_are_merged(self, found: dict[str, Any]) -> None:
        """Ours win."""
        assert found["kubernetes"]["node-labels"] == {
            "mine": "yes",
            "karpenter.sh/nodepool": "default",
            "karpenter.sh/capacity-type": "spot",
        }

    def test_unknown_settings_are_dropped(self, found: dict[str, Any]) -> None:
        """Bottlerocket would refuse to start with them."""
        assert "unheard-of" not in found["kubernetes"]

    def test_other_tables_stay(self, found: dict[str, Any]) -> None:
        """They are none of our business."""
        assert found["ntp"] == {"time-servers": ["169.254.169.123"]}
        assert set(found["bootstrap-commands"]) == {"mine", "000-mount-instance-storage"}

    @pytest.mark.parametrize("custom", ["not = [toml", "settings = 1", "[settings]\nkubernetes = 1"])
    def test_what_cannot_be_merged_is_refused(self, custom: str) -> None:
        """With what is wrong."""
        with pytest.raises(BadUserData):
            rendered("Bottlerocket", custom=custom)
