"""
Clients of AWS: who we are, where we are, and whom we ask.

Credentials are found by the SDK in the places that it documents: environment, web identity tokens, pod
identity, shared files, assumed roles, instance metadata. So are endpoints, those for FIPS, dual stack and
private ones included. The region is the one that is set, or else the one that this machine is in.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import msgspec
from botocore import xform_name
from botocore.config import Config
from botocore.utils import InstanceMetadataRegionFetcher

from karpenter import __version__
from karpenter.cloud.aws.settings import BadSetting
from karpenter.cloud.aws.tallying import Tally
from karpenter.cloud.catalogs.ec2.session import pricing_region

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import boto3

SERVICES: Final = ("arc-zonal-shift", "ec2", "eks", "iam", "pricing", "sqs", "ssm")
CONNECT_SECONDS: Final = 5
READ_SECONDS: Final = 60
ATTEMPTS: Final = 5
ONCE_MORE: Final = 2
"""How often a launch is sent: its token makes AWS carry it out once."""

_FLEETS: Final = "fleets"


class NoRegion(BadSetting):
    """Nobody knows which region we are in."""

    def __init__(self) -> None:
        super().__init__(
            "AWS_REGION",
            "the region is not known: nothing names it and there is no instance metadata to ask;"
            " hint: set AWS_REGION",
        )


class _AsNeeded(Mapping[str, Any]):
    """Clients that are made when they are first asked for: whoever does not use a service has no client."""

    def __init__(self, names: tuple[str, ...], make: Callable[[str], Any]) -> None:
        self._names = names
        self._make = make
        self._made: dict[str, Any] = {}
        self._making = Lock()  # threads may share clients, but must not make them at the same time

    def __getitem__(self, name: str) -> Any:
        """Return a client."""
        if name not in self._names:
            raise KeyError(name)
        with self._making:
            if name not in self._made:
                self._made[name] = self._make(name)
            return self._made[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names of all services."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return how many services there are."""
        return len(self._names)

    def close(self) -> None:
        """Close the connections of those that were made."""
        for client in self._made.values():
            client.close()


class Clients(msgspec.Struct, frozen=True, kw_only=True):
    """Clients of the services that we ask, by name."""

    region: str
    partition: str
    by_name: _AsNeeded
    tally: Tally
    """What came of their calls."""

    def call(self, service: str, operation: str, parameters: Mapping[str, Any]) -> Any:
        """Call an operation by the name that policies give it."""
        client = self.by_name[_FLEETS if operation == "CreateFleet" else service]
        return getattr(client, xform_name(operation))(**parameters)

    def close(self) -> None:
        """Close every connection."""
        self.by_name.close()


def open_clients(
    session: boto3.Session,
    *,
    region: str = "",
    endpoint: str | None = None,
    connections: int = 32,
    retries: bool = True,
) -> Clients:
    """
    Return clients for the region that is named, or for the one that we are in.

    Without `retries` the SDK asks once, for whoever tries again himself.

    Raises:
        NoRegion: nobody knows the region.
    """
    place = region or find_region(session)
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "adaptive", "total_max_attempts": ATTEMPTS},
        max_pool_connections=connections,
        user_agent_extra=f"karpenter/{__version__}",
    )
    few = config.merge(
        Config(retries={"mode": "standard", "total_max_attempts": ONCE_MORE if retries else 1})
    )
    if not retries:
        config = few

    tally = Tally()

    def make(name: str) -> Any:
        made: Any = session.client(
            "ec2" if name == _FLEETS else name,
            region_name=pricing_region(place) if name == "pricing" else place,
            endpoint_url=endpoint,
            config=few if name == _FLEETS else config,
        )
        tally.follow(made)
        return made

    return Clients(
        region=place,
        partition=session.get_partition_for_region(place),
        by_name=_AsNeeded((*SERVICES, _FLEETS), make),
        tally=tally,
    )


def find_region(session: boto3.Session) -> str:
    """
    Return the region that is set, or the one that this machine is in.

    Raises:
        NoRegion: there is neither.
    """
    found = session.region_name or os.environ.get("AWS_REGION") or _region_of_this_machine()
    if not found:
        raise NoRegion
    return found


def _region_of_this_machine() -> str | None:
    found: str | None = InstanceMetadataRegionFetcher(timeout=1, num_attempts=1).retrieve_region()
    return found
