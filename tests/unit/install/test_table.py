"""Tables as the tutorial of eksdemo prints them."""

from datetime import timedelta
from pathlib import Path

import pytest

from karpenter.install.table import age, bordered, cut, wrapped

SEEDS = Path(__file__).parents[2] / "data" / "seeds"
CNI = (
    "This policy provides the Amazon VPC CNI Plugin (amazon-vpc-cni-k8s) the permissions it requires to"
    " modify the IP address configuration on your EKS worker nodes. This permission set allows the CNI to"
    " list, describe, and modify Elastic Network Interfaces on your behalf. More information on the AWS VPC"
    " CNI Plugin is available here: https://github.com/aws/amazon-vpc-cni-k8s"
)


def test_a_table_with_rules_and_broken_cells() -> None:
    """Descriptions are broken evenly, line for line as in the tutorial."""
    rows = [
        (
            "AmazonSSMManagedInstanceCore",
            "AWS Mgd",
            "The policy for Amazon EC2 Role to enable AWS Systems Manager service core functionality.",
        ),
        ("AmazonEKS_CNI_Policy", "AWS Mgd", CNI),
        (
            "AmazonEC2ContainerRegistryReadOnly",
            "AWS Mgd",
            "Provides read-only access to Amazon EC2 Container Registry repositories.",
        ),
        (
            "AmazonEKSWorkerNodePolicy",
            "AWS Mgd",
            "This policy allows Amazon EKS worker nodes to connect to Amazon EKS Clusters.",
        ),
    ]
    text = bordered(("Name", "Type", "Description"), rows, rules=True)

    assert f"{text}\n" == (SEEDS / "node-role-policies.txt").read_text("utf-8")


def test_numbers_stand_on_the_right() -> None:
    """A queue has its counts on the right, and headings in the middle."""
    text = bordered(
        ("Age", "Name", "Type", "Messages", "In Flight"),
        [("7 minutes", "karpenter-blue", "Standard", "0", "0")],
    )

    assert text.splitlines() == [
        "+-----------+----------------+----------+----------+-----------+",
        "|    Age    |      Name      |   Type   | Messages | In Flight |",
        "+-----------+----------------+----------+----------+-----------+",
        "| 7 minutes | karpenter-blue | Standard |        0 |         0 |",
        "+-----------+----------------+----------+----------+-----------+",
    ]


def test_a_table_without_a_heading() -> None:
    """It has its borders and nothing between its rows."""
    assert bordered((), [("a", "b"), ("cc", "d")]).splitlines() == [
        "+----+---+",
        "| a  | b |",
        "| cc | d |",
        "+----+---+",
    ]


@pytest.mark.parametrize(
    ("since", "text"),
    [
        pytest.param(timedelta(milliseconds=3), "3 milliseconds", id="less than a second"),
        pytest.param(timedelta(seconds=1), "1 second", id="one is singular"),
        pytest.param(timedelta(seconds=119), "1 minute", id="rounded down"),
        pytest.param(timedelta(hours=7, minutes=59), "7 hours", id="the largest unit only"),
        pytest.param(timedelta(days=8), "1 week", id="a week and a day"),
        pytest.param(timedelta(days=800), "2 years", id="years of 365 days"),
        pytest.param(timedelta(seconds=-5), "0 seconds", id="clocks differ"),
    ],
)
def test_ages(since: timedelta, text: str) -> None:
    """An age is told in its largest unit."""
    assert age(since) == text


def test_names_are_cut() -> None:
    """A long name loses its end, and shows that it did."""
    assert cut("karpenter.sh/provisioner-name/default") == "karpenter.sh/provisioner-na..."
    assert cut("blue-main-Node") == "blue-main-Node"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        pytest.param("", [""], id="nothing"),
        pytest.param("short enough", ["short enough"], id="what fits"),
        pytest.param("x" * 40, ["x" * 40], id="one long word"),
        pytest.param("aaaa " * 8 + "b", ["aaaa aaaa aaaa aaaa aaaa aaaa", "aaaa aaaa b"], id="evenly"),
    ],
)
def test_wrapped(text: str, lines: list[str]) -> None:
    """A text is broken between words, and no line is longer than its longest word or thirty."""
    assert wrapped(text) == lines
