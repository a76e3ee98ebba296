"""What is looked up in place of moto's own work is what moto would have found."""

from __future__ import annotations

from typing import Any

import pytest
from moto.core.serialize import AttributePickerContext, XFormedAttributePicker
from moto.core.utils import get_service_model
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.tags import TagBackend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

from karpenter_local.aws import repeated


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


@pytest.mark.parametrize(
    ("host", "backend"),
    [("ec2.eu-west-1.amazonaws.com", "ec2"), ("sqs", "sqs"), (None, None), ("moto_api", "moto_api")],
)
def test_services_are_found_by_their_hosts(host: str | None, backend: str | None) -> None:
    """A host has the service that moto's table of addresses gives it."""
    assert DomainDispatcherApplication(create_backend_app).get_backend_for_host(host) == backend
