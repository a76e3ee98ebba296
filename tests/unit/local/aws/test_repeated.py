"""What is looked up in place of moto's own work is what moto would have found."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import fromstring

import pytest
from moto.core.serialize import AttributePickerContext, EC2Serializer, XFormedAttributePicker
from moto.core.utils import get_service_model
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.tags import TagBackend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from karpenter_local.aws import repeated
from karpenter_local.aws.inprocess import AwsInProcess
from karpenter_local.aws.site import ClusterAccount


class _Instance(TaggedEC2Resource):
    """A resource with a name that its members may carry as a prefix, and with an alias of its own."""

    class Meta:
        serialization_aliases = {"ImageId": "image"}  # noqa: RUF012  as moto's classes have it

    def __init__(self, number: str, backend: TagBackend) -> None:
        self.id = number
        self.ec2_backend = backend
        self.image = "ami-1"
        self.key_name = "key"


def _member(name: str) -> Any:
    shape: Any = get_service_model("ec2").shape_for("Instance")
    return shape.members[name]


def _tree(node: Any) -> Any:
    """Return an element without the space that makes it pretty."""
    return node.tag, node.attrib, (node.text or "").strip(), [_tree(each) for each in node]


@pytest.fixture(autouse=True)
def _installed() -> None:
    repeated.install()


@pytest.mark.parametrize(
    ("member", "expected"),
    [("ImageId", "ami-1"), ("KeyName", "key"), ("InstanceId", None), ("Platform", None)],
)
def test_members_of_answers_are_found_under_the_names_that_moto_tries(
    member: str, expected: str | None
) -> None:
    """A member is found by its alias and by its name in snake case; a second look finds the same."""
    shape = _member(member)
    for _ in range(2):
        context = AttributePickerContext(obj=_Instance("i-1", TagBackend()), key=member, shape=shape)
        assert XFormedAttributePicker()(context) == expected


def test_members_of_dicts_are_found_and_transformed() -> None:
    """A dict holds members by name, and a transformer of the path is applied to what was found."""
    shape = _member("ImageId")
    picker = XFormedAttributePicker(response_transformers={"Instance.ImageId": str.upper})
    context = AttributePickerContext(
        obj={"ImageId": "ami-2"}, key="ImageId", shape=shape, key_path="Instance"
    )
    assert picker(context) == "AMI-2"


def test_tags_of_a_resource_are_those_that_a_search_by_its_id_finds() -> None:
    """Tags of other resources are not shown, and one without tags has none."""
    backend = TagBackend()
    backend.create_tags(["i-1", "i-2"], {"a": "1", "b": ""})
    backend.create_tags(["i-1"], {"c": "3"})
    assert _Instance("i-1", backend).get_tags() == backend.describe_tags({"resource-id": ["i-1"]})
    assert _Instance("i-3", backend).get_tags() == []
    assert "i-3" not in backend.tags


def test_instances_are_shown_as_they_are_after_every_change() -> None:
    """A second look shows the same; new tags, other options and another state are seen at once."""
    with AwsInProcess(seed="1") as server:
        ec2 = ClusterAccount(server, cluster="blue", types=("m5.large",)).clients.by_name["ec2"]
        image = ec2.describe_images()["Images"][0]["ImageId"]
        number = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1, InstanceType="m5.large")[
            "Instances"
        ][0]["InstanceId"]

        def shown() -> Any:
            return ec2.describe_instances(InstanceIds=[number])["Reservations"][0]["Instances"][0]

        first = shown()
        assert shown() == first

        ec2.create_tags(Resources=[number], Tags=[{"Key": "a", "Value": "<&>"}])
        assert {"Key": "a", "Value": "<&>"} in shown()["Tags"]

        ec2.modify_instance_metadata_options(InstanceId=number, HttpTokens="required")
        assert shown()["MetadataOptions"]["HttpTokens"] == "required"

        ec2.terminate_instances(InstanceIds=[number])
        assert shown()["State"]["Name"] != first["State"]["Name"]


@pytest.mark.parametrize(
    "body",
    [
        {"R": {"@xmlns": 'a"b', "a": "x", "b": None, "c": "", "d": True, "e": 7}},
        {"R": {"set": {"item": [{"n": "1 < 2"}, {"n": "&"}, "text"]}, "empty": {}}},
        {"R": {"a": {"@k": "v", "#text": "t>"}}},
    ],
    ids=["values and attributes", "lists", "text beside attributes"],
)
def test_answers_say_what_those_of_moto_say(body: dict[str, Any]) -> None:
    """The text may differ, but not what it means."""
    model: Any = get_service_model("ec2").operation_model("DescribeInstances")
    written, plain = (
        EC2Serializer(model, pretty_print=pretty)._serialize_body(body) for pretty in (False, True)
    )
    assert _tree(fromstring(written)) == _tree(fromstring(plain))  # noqa: S314  both were written here


@pytest.mark.parametrize(
    ("host", "backend"),
    [("ec2.eu-west-1.amazonaws.com", "ec2"), ("sqs", "sqs"), (None, None), ("moto_api", "moto_api")],
)
def test_services_are_found_by_their_hosts(host: str | None, backend: str | None) -> None:
    """A host has the service that moto's table of addresses gives it."""
    assert DomainDispatcherApplication(create_backend_app).get_backend_for_host(host) == backend
