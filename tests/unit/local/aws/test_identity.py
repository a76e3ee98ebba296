"""Who calls the embedded AWS, and the log of what was called."""

import pytest
from botocore.exceptions import ClientError

from karpenter_local.aws.account import RecordedCall
from karpenter_local.aws.faults import RefuseCall
from karpenter_local.aws.site import ClusterAccount
from karpenter_local.aws.trail import is_read, trail
from tests.unit.local.aws.bare import TRUST, bare_site


@pytest.fixture(scope="module")
def site() -> ClusterAccount:
    """Return an account."""
    return bare_site()


def test_the_account_tells_who_calls(site: ClusterAccount) -> None:
    """GetCallerIdentity names the user whose keys the account gives out."""
    told = site.client("sts").get_caller_identity()

    number = site.account.number
    assert told["Account"] == number
    assert told["Arn"] == f"arn:aws:iam::{number}:user/admin"


def test_a_session_of_a_role_is_named(site: ClusterAccount) -> None:
    """A caller that assumes a role is told, and logged, as a session of that role."""
    role = f"arn:aws:iam::{site.account.number}:role/karpenter"
    keys = site.client("sts").assume_role(RoleArn=role, RoleSessionName="me")["Credentials"]
    make = site.session.client
    sts, ec2 = (
        make(
            service,
            endpoint_url=site.environment["AWS_ENDPOINT_URL"],
            aws_access_key_id=keys["AccessKeyId"],
            aws_secret_access_key=keys["SecretAccessKey"],
            aws_session_token=keys["SessionToken"],
        )
        for service in ("sts", "ec2")
    )
    expected = f"arn:aws:sts::{site.account.number}:assumed-role/karpenter/me"

    assert sts.get_caller_identity()["Arn"] == expected
    ec2.describe_vpcs()
    assert site.account.calls("DescribeVpcs")[-1].principal == expected


def test_the_log_tells_reads_from_changes(site: ClusterAccount) -> None:
    """The log names action, resource and caller; refused calls changed nothing; reads did not either."""
    iam, account = site.client("iam"), site.account
    account.forget_calls()

    iam.list_roles()
    iam.create_role(RoleName="one", AssumeRolePolicyDocument=TRUST)
    with pytest.raises(ClientError):
        iam.create_role(RoleName="one", AssumeRolePolicyDocument=TRUST)
    account.faults.next("DeleteRole", RefuseCall(code="AccessDenied", status=403))
    with pytest.raises(ClientError):
        iam.delete_role(RoleName="one")
    found = list(trail(account.calls()))

    assert [(each.action, each.read_only, each.error_code) for each in found] == [
        ("iam:ListRoles", True, ""),
        ("iam:CreateRole", False, ""),
        ("iam:CreateRole", False, "EntityAlreadyExists"),
        ("iam:DeleteRole", False, "AccessDenied"),
    ]
    (changed,) = [each for each in found if each.changed]
    assert (changed.resources, changed.principal) == (("one",), account.administrator)


def test_a_new_account_has_an_empty_log() -> None:
    """What was called to make the account is not in its log."""
    assert bare_site().account.calls() == []


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param("DescribeInstances", True, id="describe reads"),
        pytest.param("GetPolicyVersion", True, id="get reads"),
        pytest.param("ValidateTemplate", True, id="validate reads"),
        pytest.param("CreateStack", False, id="create changes"),
        pytest.param("PutRule", False, id="put changes"),
        pytest.param("TagResource", False, id="tag changes"),
        pytest.param("AttachRolePolicy", False, id="attach changes"),
    ],
)
def test_names_of_operations_tell_whether_they_read(operation: str, *, expected: bool) -> None:
    """Operations that change nothing are told by how their names begin."""
    assert is_read(operation) is expected


def test_resources_of_ec2_calls() -> None:
    """Numbered parameters of EC2's protocol are resources, too."""
    call = RecordedCall(
        "ec2", "CreateTags", {"ResourceId.1": "subnet-1", "ResourceId.2": "sg-2", "Tag.1.Key": "a"}
    )

    assert [each.resources for each in trail([call])] == [("subnet-1", "sg-2")]


def test_what_is_not_supported_is_refused_in_the_words_of_aws(site: ClusterAccount) -> None:
    """An operation that nothing here imitates is refused at once, and not answered with a page."""
    with pytest.raises(ClientError, match="not supported by the embedded AWS") as caught:
        site.client("ec2").describe_instance_topology()

    assert caught.value.response["Error"]["Code"] == "InvalidAction"


@pytest.mark.parametrize("service", ["ec2", "eks", "sqs", "sts"])
def test_a_region_that_does_not_exist(site: ClusterAccount, service: str) -> None:
    """Every service says so in one sentence, and names regions that there are, the account's own first."""
    client = site.session.client(
        service, region_name="us-wst-2", endpoint_url=site.environment["AWS_ENDPOINT_URL"]
    )
    ask = {
        "ec2": "describe_subnets",
        "eks": "list_clusters",
        "sqs": "list_queues",
        "sts": "get_caller_identity",
    }
    with pytest.raises(ClientError) as caught:
        getattr(client, ask[service])()

    told = caught.value.response["Error"]
    assert told["Code"] == "InvalidRegion"
    assert told["Message"].startswith(f"there is no region 'us-wst-2'; there are {site.account.region}, us-")
