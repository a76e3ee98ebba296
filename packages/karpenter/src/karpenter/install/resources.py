"""
The resources that an installation consists of, as values.

Names, documents and manifests are plain data. Nothing here knows how a resource is made, read or deleted:
:mod:`.observe` and :mod:`.apply` do that through AWS and Kubernetes; :mod:`.cloudformation` and
:mod:`.script` write it down.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

Json: TypeAlias = Mapping[str, Any]
"""A document or a manifest."""

MARKER: Final = "karpenter.sh/installation"
"""The tag, with the cluster's name, of everything that `karpenter install` makes in an account."""


class _Described(msgspec.Struct, frozen=True, kw_only=True, tag=True, tag_field="kind"):
    """A resource of an installation; each has a title, which says in one phrase which one it is."""


class ServiceLinkedRole(_Described, frozen=True, kw_only=True):
    """The role by which EC2 buys spot instances. One for the account, never deleted."""

    name: str
    service: str

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"service-linked role {self.name}"


class OpenIDConnectProvider(_Described, frozen=True, kw_only=True):
    """Lets IAM trust the tokens of the cluster's service accounts."""

    arn: str
    url: str
    audience: str

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"OIDC provider {self.arn.partition(':oidc-provider/')[2]}"


class IamPolicy(_Described, frozen=True, kw_only=True):
    """A policy that roles are given by its ARN."""

    name: str
    arn: str
    document: Json

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"policy {self.name}"


class IamRole(_Described, frozen=True, kw_only=True):
    """A role: who may assume it, and what it may do."""

    name: str
    arn: str
    trust: Json
    attached: tuple[str, ...] = ()
    """ARNs of policies, in the order in which they are attached."""

    inline: Mapping[str, Json] = {}

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"role {self.name}"


class IamInstanceProfile(_Described, frozen=True, kw_only=True):
    """Hands a role to instances."""

    name: str
    role: str

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"instance profile {self.name}"


class SqsQueue(_Described, frozen=True, kw_only=True):
    """The queue that interruptions arrive in."""

    name: str
    arn: str
    retention: int
    """Seconds for which a message is kept."""

    policy: Json

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"queue {self.name}"


class EventBridgeRule(_Described, frozen=True, kw_only=True):
    """Sends one sort of event to the queue."""

    name: str
    resource: str
    """What the rule is called in a CloudFormation template."""

    pattern: Json
    target: str
    """The ARN of the queue."""

    target_id: str

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"event rule {self.name}"


class Ec2Tags(_Described, frozen=True, kw_only=True):
    """A tag on subnets and security groups that exist."""

    key: str
    value: str
    resources: tuple[str, ...]

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"tag {self.key}={self.value} on {', '.join(self.resources)}"


class EksAccessEntry(_Described, frozen=True, kw_only=True):
    """Lets a role into the cluster."""

    cluster: str
    principal: str
    type: str

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"access entry {self.type} for {self.principal.rpartition('/')[2]}"


class AwsAuthMapping(_Described, frozen=True, kw_only=True):
    """Lets a role into a cluster that reads the ConfigMap aws-auth."""

    role: str
    username: str
    groups: tuple[str, ...]

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"aws-auth entry for {self.role.rpartition('/')[2]}"


class EksAddon(_Described, frozen=True, kw_only=True):
    """An add-on of the cluster."""

    cluster: str
    name: str

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"add-on {self.name}"


class EksPodIdentityAssociation(_Described, frozen=True, kw_only=True):
    """Gives a role to the pods of a service account."""

    cluster: str
    namespace: str
    service_account: str
    role: str

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"pod identity association of {self.namespace}/{self.service_account}"


class KubernetesObject(_Described, frozen=True, kw_only=True):
    """One object of the cluster, as server-side apply takes it."""

    body: Json
    once: bool = False
    """Whether it is made to begin with and then left to its users."""

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"{self.body['kind']} {self.body['metadata']['name']}"


class HelmRelease(_Described, frozen=True, kw_only=True):
    """The chart with its values, and the objects that it renders to."""

    name: str
    namespace: str
    chart: str
    chart_version: str
    app_version: str
    values: Json
    """What is stated besides the defaults of the chart, as in a file of values."""

    sets: tuple[str, ...] = ()
    """What `--set` said, as it was said."""

    objects: tuple[Json, ...] = ()

    @property
    def title(self) -> str:
        """The sort of resource and its name."""
        return f"release {self.name} {self.chart_version} in {self.namespace}"


AwsResource: TypeAlias = (
    ServiceLinkedRole
    | OpenIDConnectProvider
    | IamPolicy
    | IamRole
    | IamInstanceProfile
    | SqsQueue
    | EventBridgeRule
    | Ec2Tags
    | EksAccessEntry
    | EksAddon
    | EksPodIdentityAssociation
)
ClusterResource: TypeAlias = AwsAuthMapping | KubernetesObject | HelmRelease
InstallationResource: TypeAlias = AwsResource | ClusterResource
