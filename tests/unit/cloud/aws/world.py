"""The embedded AWS for tests: one for the whole run, with an account for each test."""

from functools import cache

import boto3
from botocore.session import Session, get_session

from karpenter.cloud.aws.session import Clients, open_clients
from karpenter.local.aws.account import Account
from karpenter.local.aws.server import EmbeddedAws


@cache
def embedded() -> EmbeddedAws:
    """Return the embedded AWS; it is started when it is first asked for, and ends with the process."""
    return EmbeddedAws().__enter__()


@cache
def _descriptions() -> object:
    """Return the SDK's descriptions of services, which take long to read, once for all clients."""
    return get_session().get_component("data_loader")


def clients_for(aws: EmbeddedAws, account: Account) -> Clients:
    """Return clients that act as an account."""
    shared = Session()
    shared.register_component("data_loader", _descriptions())
    session = boto3.Session(botocore_session=shared, **account.credentials)
    return open_clients(session, endpoint=aws.endpoint)
