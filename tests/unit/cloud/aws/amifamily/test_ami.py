"""Which images a class stands for, and which of them an instance type starts from."""

from collections.abc import Mapping
from typing import Any

import pytest

from karpenter.api.ec2nodeclass_status import AMI
from karpenter.cloud.aws.amifamily.alias import Alias, UnsupportedAlias, check_alias, parse_alias, published
from karpenter.cloud.aws.amifamily.ami import AMIProvider, FoundImage, ImageChoice, as_status
from karpenter.cloud.aws.amifamily.ssm import SSMProvider
from karpenter.cloud.aws.errors import ResourceNotFound
from karpenter.cloud.errors import CloudError
from karpenter.core.model.requirements import Requirements
from karpenter_local.virtual import VirtualClock
from tests.unit.cloud.aws.amifamily.test_resolver import IMAGES
from tests.unit.cloud.aws.instancetype.test_instancetype import built
from tests.unit.cloud.aws.scripted import ScriptedAws, virtually
from tests.unit.cloud.aws.world import node_class

NOT_FOUND = ResourceNotFound(action="ssm:GetParameter", code="ParameterNotFound", message="")


def told(number: str, **more: Any) -> dict[str, Any]:
    """Return an image as EC2 describes it."""
    return {
        "ImageId": number,
        "Name": f"name-{number}",
        "Architecture": "x86_64",
        "CreationDate": "2026-01-01T00:00:00.000Z",
        **more,
    }


def looked(
    images: list[dict[str, Any]],
    *,
    parameters: Mapping[str, str] | None = None,
    times: int = 1,
    wait: float = 0.0,
    **spec: Any,
) -> tuple[tuple[FoundImage, ...], ScriptedAws]:
    """Return the images of a class, and what AWS was asked."""

    def parameter(asked: Mapping[str, Any]) -> dict[str, Any]:
        if parameters is not None and asked["Name"] not in parameters:
            raise NOT_FOUND
        value = parameters[asked["Name"]] if parameters is not None else "ami-1"
        return {"Parameter": {"Value": value}}

    async def main(clock: VirtualClock) -> tuple[tuple[FoundImage, ...], ScriptedAws]:
        aws = ScriptedAws({"DescribeImages": {"Images": images}, "GetParameter": parameter})
        finding = AMIProvider(aws, SSMProvider(aws, monotonic=clock.monotonic), clock=clock, seconds=60.0)
        found: tuple[FoundImage, ...] = ()
        for _ in range(times):
            found = await finding.find(node_class(**spec), "1.33")
            await clock.sleep(wait)
        return found, aws

    return virtually(main)


def custom(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return a class that selects images by terms."""
    return {"amiFamily": "AL2023", "amiSelectorTerms": list(terms)}


def ids(found: tuple[FoundImage, ...]) -> list[str]:
    return [each.id for each in found]


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        pytest.param([told("ami-1")], ["ami-1"], id="one"),
        pytest.param([], [], id="none"),
        pytest.param(
            [told("ami-1"), told("ami-2", CreationDate="2026-02-01T00:00:00.000Z")],
            ["ami-2"],
            id="the newer one",
        ),
        pytest.param(
            [told("ami-1", Name="a"), told("ami-2", Name="b")], ["ami-2"], id="of the same age the later name"
        ),
        pytest.param(
            [
                told("ami-1"),
                told(
                    "ami-2",
                    CreationDate="2026-02-01T00:00:00.000Z",
                    DeprecationTime="2026-03-01T00:00:00.000Z",
                ),
            ],
            ["ami-1"],
            id="an older one before a deprecated one",
        ),
        pytest.param(
            [told("ami-1", DeprecationTime="2026-03-01T00:00:00.000Z")],
            ["ami-1"],
            id="a deprecated one, if need be",
        ),
        pytest.param(
            [told("ami-1"), told("ami-2", Architecture="arm64")],
            ["ami-1", "ami-2"],
            id="one of each architecture",
        ),
        pytest.param([told("ami-1", Architecture="i386")], [], id="none of an unsupported architecture"),
        pytest.param(
            [told("ami-1", CreationDate=""), told("ami-2")], ["ami-2"], id="one without a date is old"
        ),
        pytest.param([told("ami-1", CreationDate="long ago")], ["ami-1"], id="a date that is none"),
    ],
)
def test_one_image_is_kept(images: list[dict[str, Any]], expected: list[str]) -> None:
    """Of those for the same types, the newest that is not deprecated."""
    assert ids(looked(images, **custom({"name": "x"}))[0]) == expected


def test_a_deprecated_image_is_marked() -> None:
    """So that users see that nothing newer was found."""
    found, _ = looked([told("ami-1", DeprecationTime="2026-03-01T00:00:00.000Z")], **custom({"name": "x"}))

    assert [each.deprecated for each in as_status(found)] == [True]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param(
            [{"id": "ami-2"}, {"id": "ami-1"}],
            [{"Filters": [("image-id", ["ami-1", "ami-2"])]}],
            id="ids are asked for together",
        ),
        pytest.param(
            [{"name": "x-*"}],
            [{"Filters": [("name", ["x-*"])], "Owners": ["self", "amazon"]}],
            id="a name, of ours or of Amazon's",
        ),
        pytest.param(
            [{"name": "x", "owner": "012345678901"}],
            [{"Filters": [("name", ["x"])], "Owners": ["012345678901"]}],
            id="a name of another owner",
        ),
        pytest.param(
            [{"tags": {"a": "b", "c": "*"}}],
            [{"Filters": [("tag:a", ["b"]), ("tag-key", ["c"])]}],
            id="tags, of any owner",
        ),
        pytest.param(
            [{"tags": {"a": "b"}, "owner": "self"}],
            [{"Filters": [("tag:a", ["b"])], "Owners": ["self"]}],
            id="tags of ours",
        ),
        pytest.param(
            [{"id": "ami-1"}, {"name": "x"}],
            [
                {"Filters": [("image-id", ["ami-1"])]},
                {"Filters": [("name", ["x"])], "Owners": ["self", "amazon"]},
            ],
            id="several terms, several questions",
        ),
        pytest.param(
            [{"ssmParameter": "/mine"}, {"id": "ami-2"}],
            [{"Filters": [("image-id", ["ami-1", "ami-2"])]}],
            id="a parameter holds an id",
        ),
    ],
)
def test_what_ec2_is_asked(terms: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Within a term everything must match, and any term will do; only images that are available count."""
    _, aws = looked([], **custom(*terms))

    asked = []
    for each in aws.asked("DescribeImages"):
        assert (each["IncludeDeprecated"], each["MaxResults"]) == (True, 1000)
        filters = [(one["Name"], one["Values"]) for one in each["Filters"]]
        assert filters.pop() == ("state", ["available"])
        owners = {"Owners": each["Owners"]} if "Owners" in each else {}
        asked.append({"Filters": filters, **owners})
    assert asked == expected


@pytest.mark.parametrize(
    "parameters", [{}, {"/mine": "not an image"}], ids=["that is missing", "that holds something else"]
)
def test_a_parameter_is_skipped(parameters: dict[str, str]) -> None:
    """Other terms may still find something."""
    _, aws = looked([], parameters=parameters, **custom({"ssmParameter": "/mine"}))

    assert aws.asked("DescribeImages") == []


def test_images_are_remembered_for_a_minute() -> None:
    """And asked for again then."""
    _, aws = looked([told("ami-1")], times=3, wait=40.0, **custom({"id": "ami-1"}))

    assert aws.counted()["DescribeImages"] == 2


EKS = "/aws/service/eks/optimized-ami/1.33/amazon-linux-2023"


def test_an_alias_may_be_published_in_part() -> None:
    """Variants that are missing are left out."""
    found, _ = looked(
        [told("ami-1")],
        parameters={f"{EKS}/x86_64/standard/recommended/image_id": "ami-1"},
        amiSelectorTerms=[{"alias": "al2023@latest"}],
    )

    assert ids(found) == ["ami-1"]
    assert {each.key for each in found[0].requirements} == {
        "kubernetes.io/arch",
        "karpenter.k8s.aws/instance-gpu-count",
        "karpenter.k8s.aws/instance-accelerator-count",
    }


def test_an_alias_that_is_not_published_is_an_error() -> None:
    """It names the alias, and is tried again."""
    with pytest.raises(CloudError, match="alias al2023@v20990101"):
        looked([], parameters={}, amiSelectorTerms=[{"alias": "al2023@v20990101"}])


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        pytest.param(
            "al2023@latest",
            [
                f"{EKS}/x86_64/standard/recommended/image_id",
                f"{EKS}/x86_64/nvidia/recommended/image_id",
                f"{EKS}/x86_64/neuron/recommended/image_id",
                f"{EKS}/arm64/standard/recommended/image_id",
                f"{EKS}/arm64/nvidia/recommended/image_id",
            ],
            id="the newest AL2023",
        ),
        pytest.param(
            "al2023@v20260101",
            [
                f"{EKS}/{arch}/{kind}/amazon-eks-node-al2023-{arch}-{kind}-1.33-v20260101/image_id"
                for arch, kind in (
                    ("x86_64", "standard"),
                    ("x86_64", "nvidia"),
                    ("x86_64", "neuron"),
                    ("arm64", "standard"),
                    ("arm64", "nvidia"),
                )
            ],
            id="a pinned AL2023",
        ),
        pytest.param(
            "al2@v1",
            [
                "/aws/service/eks/optimized-ami/1.33/amazon-linux-2/amazon-eks-node-1.33-v1/image_id",
                "/aws/service/eks/optimized-ami/1.33/amazon-linux-2-arm64/amazon-eks-arm64-node-1.33-v1/image_id",
                "/aws/service/eks/optimized-ami/1.33/amazon-linux-2-gpu/amazon-eks-gpu-node-1.33-v1/image_id",
            ],
            id="a pinned AL2",
        ),
        pytest.param(
            "bottlerocket@v1.20.0",
            [
                f"/aws/service/bottlerocket/aws-k8s-1.33{flavour}/{arch}/1.20.0/image_id"
                for flavour in ("", "-nvidia")
                for arch in ("x86_64", "arm64")
            ],
            id="a pinned Bottlerocket, without its v",
        ),
        pytest.param(
            "bottlerocket@latest",
            [
                f"/aws/service/bottlerocket/aws-k8s-1.33{flavour}/{arch}/latest/image_id"
                for flavour in ("", "-nvidia")
                for arch in ("x86_64", "arm64")
            ],
            id="the newest Bottlerocket",
        ),
        pytest.param(
            "windows2022@latest",
            ["/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.33/image_id"],
            id="Windows",
        ),
    ],
)
def test_where_aliases_are_published(alias: str, expected: list[str]) -> None:
    """Paths of SSM, as AWS documents them."""
    assert [each.path for each in published(parse_alias(alias), "1.33")] == expected


@pytest.mark.parametrize(
    ("alias", "kubernetes", "supported"),
    [
        ("al2@latest", "1.32", True),
        ("al2@latest", "1.33", False),
        ("al2023@latest", "1.33", True),
        ("windows2025@latest", "1.34", False),
        ("windows2025@latest", "1.35", True),
        ("windows2019@latest", "1.26", True),
    ],
)
def test_aliases_and_versions(alias: str, kubernetes: str, supported: bool) -> None:
    """AWS does not publish every family for every version."""
    if supported:
        check_alias(parse_alias(alias), kubernetes)
    else:
        with pytest.raises(UnsupportedAlias, match=kubernetes.replace(".", r"\.")):
            check_alias(parse_alias(alias), kubernetes)


@pytest.mark.parametrize("text", ["", "al2023", "@latest", "al2023@", "al2023@a@b"])
def test_aliases_that_are_none(text: str) -> None:
    """Family, at, version, and nothing more."""
    with pytest.raises(UnsupportedAlias):
        parse_alias(text)


def test_a_family_that_is_not_published() -> None:
    """It is told, and not looked for."""
    with pytest.raises(UnsupportedAlias, match="ubuntu"):
        published(Alias("ubuntu", "latest"), "1.33")


@pytest.mark.parametrize(
    ("name", "images", "expected"),
    [
        ("m5.large", IMAGES, "ami-standard"),
        ("c6g.large", IMAGES, "ami-arm"),
        ("p5.48xlarge", IMAGES, "ami-nvidia"),
        ("inf2.xlarge", IMAGES, "ami-neuron"),
        ("p5.48xlarge", IMAGES[:2], None),
        ("m5.large", (AMI(id="first"), AMI(id="second")), "first"),
        ("m5.large", (), None),
    ],
)
def test_the_image_of_a_type(name: str, images: tuple[AMI, ...], expected: str | None) -> None:
    """The first whose conditions the type meets."""
    kind = built(name)
    assert kind is not None

    found = ImageChoice(images).image_of(kind)

    assert (found.id if found else None) == expected


def test_types_without_an_image_are_left_out() -> None:
    """They cannot be launched."""
    kinds = [kind for name in ("m5.large", "p5.48xlarge") if (kind := built(name)) is not None]

    found = ImageChoice(IMAGES[:1]).by_image(kinds)

    assert {image: [kind.name for kind in kinds] for image, kinds in found.items()} == {
        "ami-standard": ["m5.large"]
    }
    assert all(isinstance(kind.requirements, Requirements) for kind in kinds)
