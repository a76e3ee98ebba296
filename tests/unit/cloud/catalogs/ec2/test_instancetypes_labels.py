from __future__ import annotations

import msgspec
import pytest

from karpenter.cloud.catalogs.ec2.data import Accelerator, Gpu, load_data
from karpenter.cloud.catalogs.ec2.instancetypes import category, type_labels

KA = "karpenter.k8s.aws"
M5_LARGE = next(facts for facts in load_data().types if facts.name == "m5.large")


def labels(**fields: object) -> dict[str, tuple[str, ...]]:
    """Return the labels of an m5.large that differs in some fields."""
    return type_labels(
        msgspec.structs.replace(M5_LARGE, **fields), region="us-east-1", zone_ids=("use1-az2", "use1-az1")
    )


def test_an_accelerator_of_another_make() -> None:
    """Where there is no Neuron device, a single inference accelerator gives the labels."""
    found = labels(accelerators=(Accelerator("Qualcomm AI100", "Qualcomm", 8),))

    assert found[f"{KA}/instance-accelerator-name"] == ("qualcomm-ai100",)
    assert found[f"{KA}/instance-accelerator-manufacturer"] == ("qualcomm",)
    assert found[f"{KA}/instance-accelerator-count"] == ("8",)


def test_two_kinds_of_gpu_have_no_label() -> None:
    """A label has one value, so a mixture has none."""
    assert labels(gpus=(Gpu("A", "NVIDIA", 1, 1), Gpu("B", "NVIDIA", 1, 1)))[f"{KA}/instance-gpu-name"] == ()


def test_a_name_of_unknown_form_has_no_category() -> None:
    """Category and generation are read from the name; other names have neither."""
    found = labels(name="odd")

    assert found[f"{KA}/instance-category"] == found[f"{KA}/instance-generation"] == ()


def test_zone_ids_are_sorted() -> None:
    """Values come in an order that does not depend on their source."""
    assert labels()["topology.k8s.aws/zone-id"] == ("use1-az1", "use1-az2")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("m5.large", "m"), ("u-6tb1.metal", "u"), ("im4gn.large", "im"), ("p6-b200.48xlarge", "p"), ("odd", "")],
)
def test_category(name: str, expected: str) -> None:
    """A category is the letters that a name begins with."""
    assert category(name) == expected
