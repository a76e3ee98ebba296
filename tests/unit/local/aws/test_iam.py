"""What IAM has that belongs to AWS: managed policies and service-linked roles."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from karpenter_local.aws.iam import DESCRIPTIONS
from tests.unit.local.aws.bare import TRUST, bare_site, code_of, shared_site

OF_AWS = "arn:aws:iam::aws:policy"


def iam() -> Any:
    return shared_site().client("iam")


def test_a_bare_account_has_no_roles() -> None:
    """Nothing was installed: no roles, no profiles, no policies of the account, no identity providers."""
    client = bare_site().client("iam")

    assert client.list_roles()["Roles"] == []
    assert client.list_instance_profiles()["InstanceProfiles"] == []
    assert client.list_policies(Scope="Local")["Policies"] == []
    assert client.list_open_id_connect_providers()["OpenIDConnectProviderList"] == []


@pytest.mark.parametrize("name", sorted(DESCRIPTIONS))
def test_managed_policies_are_there(name: str) -> None:
    """A policy of AWS can be attached, and has its document and its description."""
    role = f"with-{name}"
    iam().create_role(RoleName=role, AssumeRolePolicyDocument=TRUST)
    iam().attach_role_policy(RoleName=role, PolicyArn=f"{OF_AWS}/{name}")

    policy = iam().get_policy(PolicyArn=f"{OF_AWS}/{name}")["Policy"]
    assert policy["Description"] == DESCRIPTIONS[name]
    version = iam().get_policy_version(PolicyArn=policy["Arn"], VersionId=policy["DefaultVersionId"])
    assert version["PolicyVersion"]["Document"]["Statement"]
    attached = iam().list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    assert attached == [{"PolicyName": name, "PolicyArn": f"{OF_AWS}/{name}"}]


def test_a_policy_that_aws_does_not_have() -> None:
    """A policy with a wrong name cannot be attached."""
    iam().create_role(RoleName="wrong", AssumeRolePolicyDocument=TRUST)

    with pytest.raises(ClientError) as caught:
        iam().attach_role_policy(RoleName="wrong", PolicyArn=f"{OF_AWS}/AmazonEKSNodeAccess")
    assert code_of(caught.value) == "NoSuchEntity"


def test_the_role_for_spot_instances() -> None:
    """The service-linked role has its real name, path and policy, and is made once."""
    client = bare_site().client("iam")
    role = client.create_service_linked_role(AWSServiceName="spot.amazonaws.com")["Role"]

    assert role["Arn"].endswith(":role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot")
    (policy,) = client.list_attached_role_policies(RoleName=role["RoleName"])["AttachedPolicies"]
    assert policy["PolicyName"] == "AWSEC2SpotServiceRolePolicy"
    with pytest.raises(ClientError, match="has been taken in this account") as caught:
        client.create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    assert code_of(caught.value) == "InvalidInput"


def test_instance_profiles_are_listed_by_path() -> None:
    """Profiles of another path are not listed."""
    iam().create_instance_profile(InstanceProfileName="there", Path="/karpenter/us-west-2/blue/")
    iam().create_instance_profile(InstanceProfileName="here")

    found = iam().list_instance_profiles(PathPrefix="/karpenter/")["InstanceProfiles"]
    assert [each["InstanceProfileName"] for each in found] == ["there"]


def test_spot_instances_need_their_role() -> None:
    """Without the service-linked role a fleet gets no spot instances, and on-demand ones all the same."""
    site = bare_site()
    ec2 = site.client("ec2")
    ec2.create_launch_template(
        LaunchTemplateName="one", LaunchTemplateData={"ImageId": "ami-09f1941e8730d7702"}
    )

    def fleet(kind: str) -> dict[str, Any]:
        answer: dict[str, Any] = ec2.create_fleet(
            Type="instant",
            LaunchTemplateConfigs=[
                {
                    "LaunchTemplateSpecification": {"LaunchTemplateName": "one", "Version": "$Latest"},
                    "Overrides": [{"InstanceType": "m5.large", "SubnetId": site.estate.subnets[0]}],
                }
            ],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "DefaultTargetCapacityType": kind},
        )
        return answer

    (error,) = fleet("spot")["Errors"]
    assert error["ErrorCode"] == "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    assert fleet("on-demand")["Instances"]
    site.client("iam").create_service_linked_role(AWSServiceName="spot.amazonaws.com")
    assert fleet("spot")["Instances"]
