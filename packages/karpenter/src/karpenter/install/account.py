"""
Asking AWS for an installer: one call at a time, errors in our words, and what is known of a cluster.

Errors are those of :mod:`karpenter.cloud.aws.errors`: ``NotAllowed`` names the action that is missing,
``ResourceNotFound`` says that something does not exist. Everything in this module only reads, but for
:meth:`AccountApi.call`, which does what it is told.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import boto3
import msgspec
from botocore import xform_name
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)

from karpenter import __version__
from karpenter.cloud.aws.errors import (
    AwsApiError,
    NoCredentials,
    NoResponse,
    ResourceNotFound,
    error_from_response,
)
from karpenter.install.documents import image_parameters
from karpenter.install.options import (
    DISCOVERY,
    InstallationError,
    InstallationFacts,
    InstallationOptions,
    ami_family,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from karpenter.cloud.errors import CloudError

CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 60
ATTEMPTS: Final = 5
CLUSTER_GROUP: Final = "aws:eks:cluster-name"
"""The tag of the security group that EKS makes for a cluster."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """As whom we call AWS."""

    account: str
    arn: str
    partition: str


class AccountApi:
    """Calls operations of AWS by the names that policies give them."""

    def __init__(self, client: Callable[[str], Any]) -> None:
        self._make = client
        self._clients: dict[str, Any] = {}

    def call(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        """
        Call an operation, such as ``iam`` ``GetRole``, and return its answer.

        Raises:
            Refused: AWS answered with an error.
            NoResponse: it did not answer.
        """
        action = f"{service}:{operation}"
        try:
            answer: dict[str, Any] = getattr(self._client(service), xform_name(operation))(**parameters)
        except (ClientError, BotoCoreError) as error:
            raise _failed(action, error) from error
        return answer

    def every(self, service: str, operation: str, field: str, /, **parameters: Any) -> Iterator[Any]:
        """Yield the items of a list, page by page."""
        client = self._client(service)
        if not client.can_paginate(xform_name(operation)):
            yield from self.call(service, operation, **parameters).get(field, ())
            return
        try:
            for page in client.get_paginator(xform_name(operation)).paginate(**parameters):
                yield from page.get(field, ())
        except (ClientError, BotoCoreError) as error:
            raise _failed(f"{service}:{operation}", error) from error

    def find(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any] | None:
        """Call an operation that reads one thing; None if it does not exist."""
        try:
            return self.call(service, operation, **parameters)
        except ResourceNotFound:
            return None

    def output_shape(self, service: str, operation: str) -> Any:
        """Return what the SDK knows of the answer to an operation."""
        return self._client(service).meta.service_model.operation_model(operation).output_shape

    def caller(self) -> Caller:
        told = self.call("sts", "GetCallerIdentity")
        return Caller(account=told["Account"], arn=told["Arn"], partition=told["Arn"].split(":")[1])

    def close(self) -> None:
        for each in self._clients.values():
            each.close()

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self._make(service)
        return self._clients[service]


def _failed(action: str, error: Exception) -> CloudError:
    if isinstance(error, ClientError):
        return error_from_response(action, error.response)
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return NoCredentials(action=action, because=error)
    if isinstance(error, ParamValidationError):  # the SDK has not even asked
        said = str(error).partition("\n")[2] or str(error)
        return AwsApiError(action=action, code="ValidationError", message=said)
    return NoResponse(action=action, because=error)


def open_api(*, region: str = "", profile: str = "") -> tuple[AccountApi, str]:
    """
    Return calls to AWS with the credentials that the SDK finds, and the region.

    Raises:
        InstallationError: nothing says which region, or the profile does not exist.
    """
    # The AWS CLI and the other SDKs read AWS_REGION before AWS_DEFAULT_REGION; boto3 reads the latter only.
    # https://docs.aws.amazon.com/sdkref/latest/guide/feature-region.html
    named = region or os.environ.get("AWS_REGION") or None
    try:
        session = boto3.Session(profile_name=profile or None, region_name=named)
    except BotoCoreError as error:
        raise InstallationError(str(error), hint="aws configure list-profiles names them") from error
    if not session.region_name:
        raise InstallationError("the region is not known", hint="--region NAME, or set AWS_REGION")
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        user_agent_extra=f"karpenter-install/{__version__}",
    )
    make: Any = session.client
    return AccountApi(lambda service: make(service, config=config)), session.region_name


def read_facts(
    aws: AccountApi,
    options: InstallationOptions,
    *,
    region: str,
    subnets: Iterable[str] = (),
    security_groups: Iterable[str] = (),
    must_exist: bool = True,
) -> InstallationFacts:
    """
    Return what an installation has to know of a cluster; nothing is changed.

    Raises:
        InstallationError: there is no such cluster, or it is not ready.
        CloudError: AWS does not say.
    """
    caller = aws.caller()
    found = aws.find("eks", "DescribeCluster", name=options.cluster)
    if found is None and not must_exist:
        return InstallationFacts(
            cluster=options.cluster,
            account=caller.account,
            region=region,
            partition=caller.partition,
            exists=False,
        )
    if found is None:
        raise InstallationError(
            f"cluster {options.cluster} does not exist in {region}, account {caller.account}",
            hint=clusters_there_are(aws),
        )
    cluster = found["cluster"]
    if cluster.get("status", "ACTIVE") != "ACTIVE":
        raise InstallationError(
            f'cluster "{options.cluster}" is not ready, cluster status is: {cluster["status"]}'
        )
    network = cluster.get("resourcesVpcConfig") or {}
    kubernetes = str(cluster.get("version", ""))
    facts = InstallationFacts(
        cluster=options.cluster,
        account=caller.account,
        region=region,
        partition=caller.partition,
        kubernetes=kubernetes,
        endpoint=str(cluster.get("endpoint") or ""),
        issuer=str(((cluster.get("identity") or {}).get("oidc") or {}).get("issuer") or ""),
        authentication_mode=str((cluster.get("accessConfig") or {}).get("authenticationMode") or ""),
    )
    if options.naming == "eksdemo":
        if not must_exist:
            return facts  # what is taken away needs no images
        return msgspec.structs.replace(facts, images=_images(aws, options, kubernetes))
    return msgspec.structs.replace(
        facts,
        subnets=_named(aws, "DescribeSubnets", "Subnets", subnets)
        or _subnets(aws, options.cluster, network.get("subnetIds") or ()),
        security_groups=_named(aws, "DescribeSecurityGroups", "SecurityGroups", security_groups)
        or _security_groups(aws, options.cluster, network),
    )


def clusters_there_are(aws: AccountApi) -> str:
    """Return a hint for those who have named a cluster that does not exist."""
    known = sorted(aws.every("eks", "ListClusters", "clusters"))
    return f"there are: {', '.join(known)}" if known else "another --region or --profile?"


def _named(aws: AccountApi, operation: str, field: str, ids: Iterable[str]) -> tuple[str, ...]:
    """Return the ids of what was named, all of which must exist; AWS says which does not."""
    asked = list(ids)
    if asked:
        name, listing = "GroupIds", "aws ec2 describe-security-groups --query SecurityGroups[].GroupId"
        if field == "Subnets":
            name, listing = "SubnetIds", "aws ec2 describe-subnets --query Subnets[].SubnetId"
        try:
            aws.call("ec2", operation, **{name: asked})
        except AwsApiError as error:
            if not error.code.startswith("Invalid"):
                raise
            raise InstallationError(str(error), hint=f"{listing} lists them") from error
    return tuple(asked)


def _subnets(aws: AccountApi, cluster: str, of_cluster: Iterable[str]) -> tuple[str, ...]:
    """Return the subnets for nodes: those that are tagged, or else the private ones of the cluster."""
    tagged = [{"Name": f"tag:{DISCOVERY}", "Values": [cluster]}]
    found = [each["SubnetId"] for each in aws.every("ec2", "DescribeSubnets", "Subnets", Filters=tagged)]
    if found:
        return tuple(sorted(found))
    asked = list(of_cluster)
    if not asked:
        return ()
    listed = list(aws.every("ec2", "DescribeSubnets", "Subnets", SubnetIds=asked))
    private = [each for each in listed if not each.get("MapPublicIpOnLaunch")]
    return tuple(sorted(each["SubnetId"] for each in private or listed))


def _security_groups(aws: AccountApi, cluster: str, network: dict[str, Any]) -> tuple[str, ...]:
    """Return the groups for nodes: those that are tagged, or else the one that EKS made for the cluster."""
    for key in (DISCOVERY, CLUSTER_GROUP):
        if key == CLUSTER_GROUP and network.get("clusterSecurityGroupId"):
            return (str(network["clusterSecurityGroupId"]),)
        tagged = [{"Name": f"tag:{key}", "Values": [cluster]}]
        found = aws.every("ec2", "DescribeSecurityGroups", "SecurityGroups", Filters=tagged)
        if groups := tuple(sorted(each["GroupId"] for each in found)):
            return groups
    return ()


def _images(aws: AccountApi, options: InstallationOptions, kubernetes: str) -> tuple[str, ...]:
    """
    Return the images of the family that was asked for, x86_64 first.

    Raises:
        InstallationError: AWS publishes none for this version.
    """
    family = ami_family(options, kubernetes)
    if options.ami_alias:
        return ()
    found = []
    for name in image_parameters(family, kubernetes):
        parameter = aws.find("ssm", "GetParameter", Name=name)
        if parameter is None:
            raise InstallationError(
                f"--ami-family {family}: AWS publishes no image for Kubernetes {kubernetes} (SSM {name})",
                hint="--ami-family AL2023, or --ami-alias al2023@latest",
            )
        found.append(str(parameter["Parameter"]["Value"]))
    return tuple(found)
