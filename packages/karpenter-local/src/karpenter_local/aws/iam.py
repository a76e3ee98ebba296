"""
What IAM has that belongs to AWS: managed policies with their descriptions, and service-linked roles.

moto knows the documents of all managed policies, but makes them only if it is told to, which takes long, and
not their descriptions. Here a policy is made when it is first asked for. :func:`install` puts that, and the
names that service-linked roles really have, in place of what moto does.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from moto.core.responses import ActionResult
from moto.iam.aws_managed_policies import aws_managed_policies_data
from moto.iam.exceptions import InvalidInput
from moto.iam.models import AWSManagedPolicy, IAMBackend, iam_backends
from moto.iam.responses import IamResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from karpenter_local.aws.account import Account

SPOT: Final = "spot.amazonaws.com"
SPOT_ROLE: Final = "AWSServiceRoleForEC2Spot"

_LINKED: Final = {
    SPOT: (SPOT_ROLE, "AWSEC2SpotServiceRolePolicy"),
    "spotfleet.amazonaws.com": ("AWSServiceRoleForEC2SpotFleet", "AWSEC2SpotFleetServiceRolePolicy"),
    "eks.amazonaws.com": ("AWSServiceRoleForAmazonEKS", "AmazonEKSServiceRolePolicy"),
    "eks-nodegroup.amazonaws.com": (
        "AWSServiceRoleForAmazonEKSNodegroup",
        "AWSServiceRoleForAmazonEKSNodegroup",
    ),
}
"""Service-linked roles and their policies.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles.html
"""

_ARN: Final = "arn:aws:iam::aws:policy"
_PLAIN: Final[dict[str, Any]] = {}

_WORKER: Final = "This policy allows Amazon EKS worker nodes to connect to Amazon EKS Clusters."
DESCRIPTIONS: Final = {
    "AmazonEC2ContainerRegistryPullOnly": "Provides access to pull images from Amazon ECR repositories.",
    "AmazonEC2ContainerRegistryReadOnly": (
        "Provides read-only access to Amazon EC2 Container Registry repositories."
    ),
    "AmazonEKSClusterPolicy": (
        "This policy provides Kubernetes the permissions it requires to manage resources on your behalf."
        " Kubernetes requires Ec2:CreateTags permissions to place identifying information on EC2 resources"
        " including but not limited to Instances, Security Groups, and Elastic Network Interfaces."
    ),
    "AmazonEKSWorkerNodeMinimalPolicy": _WORKER,
    "AmazonEKSWorkerNodePolicy": _WORKER,
    "AmazonEKS_CNI_Policy": (
        "This policy provides the Amazon VPC CNI Plugin (amazon-vpc-cni-k8s) the permissions it requires to"
        " modify the IP address configuration on your EKS worker nodes. This permission set allows the CNI"
        " to list, describe, and modify Elastic Network Interfaces on your behalf. More information on the"
        " AWS VPC CNI Plugin is available here: https://github.com/aws/amazon-vpc-cni-k8s"
    ),
    "AmazonSSMManagedInstanceCore": (
        "The policy for Amazon EC2 Role to enable AWS Systems Manager service core functionality."
    ),
}
"""What AWS says of its policies, as GetPolicy tells it; of others, nothing is known.

https://docs.aws.amazon.com/aws-managed-policy/latest/reference/policy-list.html
"""


def has_spot_role(account: Account) -> bool:
    """Say whether an account has the role without which EC2 launches no spot instances."""
    return any(each.name == SPOT_ROLE for each in iam_backends[account.number]["aws"].roles.values())


def make_spot_role(account: Account) -> None:
    """Give an account the service-linked role for spot instances."""
    iam_backends[account.number]["aws"].create_service_linked_role(SPOT, "", "")


@cache
def _published() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the name and the facts of every managed policy, by its ARN."""
    told: dict[str, dict[str, Any]] = json.loads(aws_managed_policies_data)
    return {f"{_ARN}{facts['Path']}{name}": (name, facts) for name, facts in told.items()}


def _know(backend: Any, arn: str) -> None:
    """Let a backend have a policy of AWS that it has not made yet."""
    if arn in backend.managed_policies or not arn.startswith(_ARN) or arn not in _published():
        return
    name, facts = _published()[arn]
    made: Any = AWSManagedPolicy.from_data(name, backend.account_id, backend.region_name, facts)
    made.description = DESCRIPTIONS.get(name, "")
    backend.managed_policies[arn] = made
    backend.aws_managed_policies.append(made)


def _knowing(name: str) -> Callable[..., Any]:
    """Return a method of moto's that is called with the ARN of a policy, and finds those of AWS."""

    def method(self: Any, policy_arn: str, *more: Any, **named: Any) -> Any:
        _know(self, policy_arn)
        return _PLAIN[name](self, policy_arn, *more, **named)

    return method


def _list_policies(self: Any, marker: Any, max_items: int, only_attached: bool, *where: str) -> Any:
    if where[-1] != "Local" and not only_attached:
        for arn in _published():
            _know(self, arn)
    return _PLAIN["list_policies"](self, marker, max_items, only_attached, *where)


def _create_service_linked_role(self: Any, service_name: str, description: str, suffix: str) -> Any:
    if service_name not in _LINKED:
        return _PLAIN["create_service_linked_role"](self, service_name, description, suffix)
    name, policy = _LINKED[service_name]
    if any(each.name == name for each in self.roles.values()):
        raise InvalidInput(
            f"Service role name {name} has been taken in this account, please try a different suffix."
        )
    trust = {"Effect": "Allow", "Principal": {"Service": service_name}, "Action": "sts:AssumeRole"}
    role = self.create_role(
        name,
        json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
        f"/aws-service-role/{service_name}/",
        permissions_boundary=None,
        description=description,
        tags=[],
        max_session_duration="3600",
        linked_service=service_name,
    )
    self.attach_role_policy(f"{_ARN}/aws-service-role/{policy}", name)
    return role


def _delete_service_linked_role(self: Any, role_name: str) -> Any:
    for arn in tuple(self.get_role(role_name).managed_policies):
        self.detach_role_policy(arn, role_name)
    return _PLAIN["delete_service_linked_role"](self, role_name)


def _list_instance_profiles(self: Any) -> ActionResult:
    prefix = self._get_param("PathPrefix") or "/"
    found = [each for each in self.backend.get_instance_profiles() if each.path.startswith(prefix)]
    return ActionResult({"InstanceProfiles": found})


@cache
def install() -> None:
    """Put our answers in place of those of moto."""
    changed = {
        "attach_role_policy": _knowing("attach_role_policy"),
        "attach_user_policy": _knowing("attach_user_policy"),
        "get_policy": _knowing("get_policy"),
        "list_policies": _list_policies,
        "create_service_linked_role": _create_service_linked_role,
        "delete_service_linked_role": _delete_service_linked_role,
    }
    for name, method in changed.items():
        _PLAIN[name] = getattr(IAMBackend, name)
        setattr(IAMBackend, name, method)
    setattr(IamResponse, "list_instance_profiles", _list_instance_profiles)  # noqa: B010  a method of theirs
