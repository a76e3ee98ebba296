"""Which version of Bottlerocket machines start from."""

from typing import Any

import pytest

from karpenter.cloud.aws.amifamily.bootstrap.bottlerocket import binds_directories, find_version
from tests.unit.cloud.aws.world import node_class

TERMS: dict[str, list[dict[str, Any]]] = {
    "alias": [{"alias": "bottlerocket@v1.30.0"}],
    "latest": [{"alias": "bottlerocket@latest"}],
    "name": [{"name": "bottlerocket-aws-k8s-1.33-x86_64-v1.45.0-8d9d3e6e"}],
    "any": [{"tags": {"a": "b"}}],
}


@pytest.mark.parametrize(
    ("terms", "image", "expected"),
    [
        pytest.param("alias", "", "v1.30.0", id="the alias says it"),
        pytest.param("latest", "bottlerocket-v1.0.0", "latest", id="the alias says the newest"),
        pytest.param("name", "", "v1.45.0", id="the name that is selected says it"),
        pytest.param(
            "any", "bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-abc", "v1.46.0", id="the image says it"
        ),
        pytest.param("any", "other-v1.46.0", "", id="another image says nothing"),
        pytest.param("any", "bottlerocket-nothing", "", id="it is not named"),
    ],
)
def test_find_version(terms: str, image: str, expected: str) -> None:
    """The alias, or a selector by name, or the image that was found."""
    wanted = node_class(amiSelectorTerms=TERMS[terms], amiFamily="Bottlerocket")

    assert find_version(wanted, image) == expected


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("bottlerocket@latest", False),
        ("bottlerocket@v1.46.0", False),
        ("bottlerocket@1.46.0", False),
        ("bottlerocket@v1.50.2", False),
        ("bottlerocket@v2.0.0", False),
        ("bottlerocket@v1.45.9", True),
        ("bottlerocket@v1.9.0", True),
        ("bottlerocket@1.46", True),
        ("bottlerocket@v1.x.0", True),
    ],
)
def test_binds_directories(alias: str, expected: bool) -> None:
    """Versions before 1.46.0 have to be told, and so has whatever cannot be read."""
    assert binds_directories(node_class(amiSelectorTerms=[{"alias": alias}]), "") is expected
