"""The provider of the guide is built from the guide's own text, and passes the contract."""

import re
import sys
import types
from pathlib import Path
from typing import cast

import pytest

from karpenter_local.testing.provider_contract import ProviderContract

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "write-a-provider.md"
TESTS = sorted(name for name in dir(ProviderContract) if name.startswith("test_"))


def build() -> types.ModuleType:
    """Run every block of Python in the guide as one module."""
    blocks = re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    module = types.ModuleType("karpenter_rack")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile("\n".join(blocks), str(GUIDE), "exec"), module.__dict__)  # noqa: S102  our own guide
    return module


@pytest.fixture(scope="module")
def contract() -> ProviderContract:
    """Return the suite as the guide sets it up."""
    return cast("ProviderContract", build().TestRack())


@pytest.mark.parametrize("name", TESTS)
def test_the_rack_passes_the_contract(contract: ProviderContract, name: str) -> None:
    """A reader who copies the guide has a provider that passes the suite."""
    getattr(contract, name)()


def test_the_guide_names_every_member() -> None:
    """The table of members in the guide is complete."""
    from karpenter.cloud import cloudprovider  # noqa: PLC0415  only its names are wanted

    members = {name for name in vars(cloudprovider.CloudProvider) if not name.startswith("_")}
    named = set(re.findall(r"^\| `(\w+)", GUIDE.read_text("utf-8"), re.MULTILINE))

    assert members <= named
