"""
An account of the embedded AWS with all resources of one cluster, ready to be used.

    with EmbeddedAws() as server:
        site = ClusterAccount(server, cluster="blue")
        site.serve(ClusterEndpoint(cluster="blue", endpoint="https://...", authority="..."))
        async with site.provider(surroundings) as provider:
            ...

The provider is the one of production; it only gets its credentials and its address from here instead of from
the environment. :attr:`ClusterAccount.environment` is what another program needs to find the same.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.session import Session, get_session

from karpenter.cloud.aws.cloudprovider import AwsProvider
from karpenter.cloud.aws.operator import prepare
from karpenter.cloud.aws.options import read_settings
from karpenter.cloud.aws.sdk import AwsApi, AwsClients, open_clients
from karpenter.cloud.aws.services import new_services
from karpenter.cloud.aws.sqs import LONG_POLL_SECONDS
from karpenter_local.aws.account import DEFAULT_REGION, Account
from karpenter_local.aws.control import Control
from karpenter_local.aws.estate import ClusterResources
from karpenter_local.aws.mail import has_mail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from karpenter.cloud.cloudprovider import ProviderContext
    from karpenter_local.aws.inprocess import AwsInProcess
    from karpenter_local.aws.room import ClusterEndpoint
    from karpenter_local.aws.server import EmbeddedAws


class ClusterAccount:
    """An account with the resources of one cluster."""

    def __init__(
        self,
        server: EmbeddedAws | AwsInProcess,
        *,
        cluster: str,
        region: str = DEFAULT_REGION,
        kubernetes: str = "1.33",
        types: Iterable[str] | None = None,
        bare: bool = False,
        tagged: bool = True,
    ) -> None:
        self.cluster = cluster
        self._endpoint = server.endpoint
        self.account = server.account(region=region, types=types)
        shared = Session()
        shared.register_component("data_loader", _descriptions())
        server.attach(shared)
        self.session = boto3.Session(botocore_session=shared, **self.account.credentials)
        """Of the SDK, with the keys of the account."""

        self.clients = open_clients(self.session, endpoint=self._endpoint, retries=server.retries)
        self.estate = ClusterResources(
            self.account, self.clients.by_name, cluster, kubernetes=kubernetes, bare=bare, tagged=tagged
        )
        self.estate.build()
        self.account.forget_calls()  # the log begins with what others ask
        self.control = Control(self.account, self.estate)

    def client(self, service: str) -> Any:
        made: Any = self.session.client
        return made(service, endpoint_url=self._endpoint)

    def serve(self, reach: ClusterEndpoint) -> None:
        """Let EKS tell how the cluster is reached."""
        self.estate.serve(endpoint=reach.endpoint, authority=reach.authority)

    @property
    def environment(self) -> dict[str, str]:
        """What a program has to find in its environment to use this site for its cluster."""
        credentials = self.account.credentials
        return {
            "AWS_ACCESS_KEY_ID": credentials["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": credentials["aws_secret_access_key"],
            "AWS_REGION": self.account.region,
            "AWS_DEFAULT_REGION": self.account.region,
            "AWS_ENDPOINT_URL": self._endpoint,
            "CLUSTER_NAME": self.cluster,
            **({} if self.estate.bare else {"INTERRUPTION_QUEUE": self.cluster}),
        }

    @asynccontextmanager
    async def provider(
        self, context: ProviderContext, *, long_poll: int = LONG_POLL_SECONDS
    ) -> AsyncIterator[AwsProvider]:
        """
        Begin to use the site for its cluster; in virtual time, with a `long_poll` of zero.

        Raises:
            BadAwsSetting: a setting cannot be used.
        """
        aws = AwsApi(self.clients, fence=context.fence) if long_poll else self.idle_aws()
        try:
            provider = self.new_provider(aws, context, long_poll=long_poll)
            await prepare(provider.services)
            yield provider
        finally:
            aws.close()

    def idle_aws(self) -> AwsApi:
        """Return calls to this account that ask the queue only while it holds a message."""
        return _VirtualTimeApi(self.clients, self.account)

    def new_provider(self, aws: AwsApi, context: ProviderContext, *, long_poll: int) -> AwsProvider:
        """
        Return a provider that has asked AWS for nothing yet; ``karpenter.cloud.aws.operator.prepare`` does.

        Raises:
            BadAwsSetting: a setting cannot be used.
        """
        settings = read_settings(self.cluster, {**self.environment, **context.settings})
        return AwsProvider(
            new_services(
                aws,
                settings,
                objects=context.objects,
                clock=context.clock,
                chance=context.chance,
                long_poll=long_poll,
            )
        )

    def close(self) -> None:
        self.clients.close()


class _VirtualTimeApi(AwsApi):
    """Asks AWS in virtual time, where a day has 86,400 questions for mail, nearly all of them in vain."""

    def __init__(self, clients: AwsClients, account: Account) -> None:
        super().__init__(clients)
        self._account = account

    async def call(self, service: str, operation: str, /, **parameters: Any) -> dict[str, Any]:
        """Call an operation, except for mail when there is none."""
        if operation == "ReceiveMessage" and not has_mail(self._account):
            return {}
        return await super().call(service, operation, **parameters)


@cache
def _descriptions() -> object:
    """Return the SDK's descriptions of services, which take long to read, once for all sites."""
    return get_session().get_component("data_loader")
