"""EKS beside clusters: access entries, access policies, add-ons, pod identity associations."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from karpenter_local.aws.eks import may_join
from tests.unit.local.aws.bare import TRUST, bare_site, code_of, shared_site

POLICY = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy"


def eks() -> Any:
    return shared_site().client("eks")


def role(name: str) -> str:
    """Make a role and return its ARN."""
    iam = shared_site().client("iam")
    return str(iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)["Role"]["Arn"])


def test_a_bare_cluster_can_be_installed_on() -> None:
    """The cluster tells its OIDC issuer, its network and how principals are let in; none is yet."""
    client = bare_site().client("eks")
    cluster = client.describe_cluster(name="blue")["cluster"]

    assert cluster["identity"]["oidc"]["issuer"].startswith("https://oidc.eks.us-west-2.amazonaws.com/id/")
    assert cluster["accessConfig"]["authenticationMode"] == "API_AND_CONFIG_MAP"
    assert {"vpcId", "clusterSecurityGroupId"} <= cluster["resourcesVpcConfig"].keys()
    assert len(cluster["resourcesVpcConfig"]["subnetIds"]) == 6
    assert client.list_access_entries(clusterName="blue")["accessEntries"] == []


def test_a_cluster_that_is_made_gets_a_security_group() -> None:
    """It has the tag that only AWS sets, and is told with the VPC of the subnets; nodes are in it."""
    ec2 = shared_site().client("ec2")
    subnets = ec2.describe_subnets()["Subnets"]
    asked = {"subnetIds": [each["SubnetId"] for each in subnets[:2]], "endpointPublicAccess": False}
    trusted = "arn:aws:iam::000000000001:role/cluster"
    made = eks().create_cluster(name="green", roleArn=trusted, resourcesVpcConfig=asked)["cluster"]
    network = made["resourcesVpcConfig"]
    (group,) = ec2.describe_security_groups(GroupIds=[network["clusterSecurityGroupId"]])["SecurityGroups"]

    assert (network["vpcId"], network["endpointPublicAccess"]) == (subnets[0]["VpcId"], False)
    assert {"Key": "aws:eks:cluster-name", "Value": "green"} in group["Tags"]


def test_an_access_entry_lives() -> None:
    """An entry for nodes is made with their groups and names, listed, and deleted."""
    principal = role("entry")
    made = eks().create_access_entry(clusterName="blue", principalArn=principal, type="EC2_LINUX")

    entry = made["accessEntry"]
    assert (entry["kubernetesGroups"], entry["username"]) == (
        ["system:nodes"],
        "system:node:{{EC2PrivateDNSName}}",
    )
    assert may_join(shared_site().account, "blue", principal)
    assert principal in eks().list_access_entries(clusterName="blue")["accessEntries"]
    eks().delete_access_entry(clusterName="blue", principalArn=principal)
    assert not may_join(shared_site().account, "blue", principal)


def test_an_entry_of_type_standard_lets_no_nodes_in() -> None:
    """A guide's entry of type STANDARD takes access policies, and still lets no machine join."""
    principal = role("standard")
    eks().create_access_entry(clusterName="blue", principalArn=principal)

    eks().associate_access_policy(
        clusterName="blue", principalArn=principal, policyArn=POLICY, accessScope={"type": "cluster"}
    )
    found = eks().list_associated_access_policies(clusterName="blue", principalArn=principal)
    assert [each["policyArn"] for each in found["associatedAccessPolicies"]] == [POLICY]
    assert not may_join(shared_site().account, "blue", principal)


def _taken(principal: str) -> None:
    eks().create_access_entry(clusterName="blue", principalArn=principal)
    eks().create_access_entry(clusterName="blue", principalArn=principal)


def _policy_of_nodes(principal: str) -> None:
    eks().create_access_entry(clusterName="blue", principalArn=principal, type="EC2_LINUX")
    eks().associate_access_policy(
        clusterName="blue", principalArn=principal, policyArn=POLICY, accessScope={"type": "cluster"}
    )


def _unknown_policy(principal: str) -> None:
    eks().create_access_entry(clusterName="blue", principalArn=principal)
    eks().associate_access_policy(
        clusterName="blue",
        principalArn=principal,
        policyArn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSNodeAccess",
        accessScope={"type": "cluster"},
    )


@pytest.mark.parametrize(
    ("attempt", "code"),
    [
        pytest.param(
            lambda _: eks().list_access_entries(clusterName="red"),
            "ResourceNotFoundException",
            id="no such cluster",
        ),
        pytest.param(
            lambda arn: eks().create_access_entry(clusterName="blue", principalArn=f"{arn}-not"),
            "InvalidParameterException",
            id="no such role",
        ),
        pytest.param(_taken, "ResourceInUseException", id="an entry that exists"),
        pytest.param(
            lambda arn: eks().create_access_entry(
                clusterName="blue", principalArn=arn, kubernetesGroups=["system:masters"]
            ),
            "InvalidParameterException",
            id="a group of Kubernetes itself",
        ),
        pytest.param(
            lambda arn: eks().create_access_entry(
                clusterName="blue", principalArn=arn, type="EC2_LINUX", kubernetesGroups=["mine"]
            ),
            "InvalidParameterException",
            id="groups for nodes",
        ),
        pytest.param(
            lambda arn: eks().create_access_entry(clusterName="blue", principalArn=arn, type="EC2_MAC"),
            "InvalidParameterException",
            id="no such type",
        ),
        pytest.param(_policy_of_nodes, "InvalidRequestException", id="an access policy for nodes"),
        pytest.param(_unknown_policy, "InvalidParameterException", id="no such access policy"),
        pytest.param(
            lambda arn: eks().describe_access_entry(clusterName="blue", principalArn=arn),
            "ResourceNotFoundException",
            id="no such entry",
        ),
    ],
)
def test_what_eks_refuses(
    attempt: Callable[[str], object], code: str, request: pytest.FixtureRequest
) -> None:
    """EKS refuses what it refuses on AWS, with the same codes."""
    principal = role(request.node.callspec.id.replace(" ", "-"))

    with pytest.raises(ClientError) as caught:
        attempt(principal)
    assert code_of(caught.value) == code


def test_the_way_in_is_opened_step_by_step() -> None:
    """A cluster that only reads the ConfigMap takes no entries until it is opened to the API, for good."""
    site = bare_site()
    client = site.client("eks")
    site.estate.let_in_by("CONFIG_MAP")
    user = site.account.administrator
    with pytest.raises(ClientError) as caught:
        client.create_access_entry(clusterName="blue", principalArn=user)
    assert code_of(caught.value) == "InvalidRequestException"

    client.update_cluster_config(name="blue", accessConfig={"authenticationMode": "API_AND_CONFIG_MAP"})
    client.create_access_entry(clusterName="blue", principalArn=user)
    with pytest.raises(ClientError) as caught:
        client.update_cluster_config(name="blue", accessConfig={"authenticationMode": "CONFIG_MAP"})
    assert code_of(caught.value) == "InvalidParameterException"


def test_add_ons_live() -> None:
    """An add-on is made in its newest version, listed, changed and deleted; unknown ones are refused."""
    name = "eks-pod-identity-agent"
    newest = eks().describe_addon_versions(addonName=name, kubernetesVersion="1.33")["addons"][0]
    version = newest["addonVersions"][0]["addonVersion"]

    assert eks().create_addon(clusterName="blue", addonName=name)["addon"]["status"] == "CREATING"
    found = eks().describe_addon(clusterName="blue", addonName=name)["addon"]
    assert (found["status"], found["addonVersion"]) == ("ACTIVE", version)
    assert eks().list_addons(clusterName="blue")["addons"] == [name]
    eks().delete_addon(clusterName="blue", addonName=name)
    with pytest.raises(ClientError) as caught:
        eks().describe_addon(clusterName="blue", addonName=name)
    assert code_of(caught.value) == "ResourceNotFoundException"
    with pytest.raises(ClientError) as caught:
        eks().create_addon(clusterName="blue", addonName="nothing")
    assert code_of(caught.value) == "InvalidParameterException"


def test_pod_identity_associations_live() -> None:
    """A service account has one role, which exists; the association is found by the account, and deleted."""
    whose = {"namespace": "kube-system", "serviceAccount": "karpenter"}
    arn = role("pods")
    made = eks().create_pod_identity_association(clusterName="blue", roleArn=arn, **whose)["association"]

    with pytest.raises(ClientError) as caught:
        eks().create_pod_identity_association(clusterName="blue", roleArn=arn, **whose)
    assert code_of(caught.value) == "ResourceInUseException"
    with pytest.raises(ClientError) as caught:
        eks().create_pod_identity_association(
            clusterName="blue", roleArn=f"{arn}-not", namespace="default", serviceAccount="x"
        )
    assert code_of(caught.value) == "InvalidParameterException"
    found = eks().list_pod_identity_associations(clusterName="blue", **whose)["associations"]
    assert [each["associationId"] for each in found] == [made["associationId"]]
    eks().delete_pod_identity_association(clusterName="blue", associationId=made["associationId"])
    assert eks().list_pod_identity_associations(clusterName="blue")["associations"] == []
