"""
The EKS cluster: what nodes need to join it, and its version of Kubernetes, which AMIs depend on.

What neither the settings nor our own connection to the API server says is asked of EKS, once; only the
version is asked again. A cluster that is not EKS's needs its endpoint among the settings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from karpenter.api.cluster import Service
from karpenter.cloud.aws.cache import TTLCache
from karpenter.cloud.errors import CloudError, CloudUnreachable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from karpenter.cloud.aws.options import AwsSettings
    from karpenter.cloud.aws.sdk import ApiResponse, AwsApi
    from karpenter.cloud.cloudprovider import ClusterObjects

log = structlog.stdlib.get_logger(__name__)

OLDEST_MINOR: Final = 26
NEWEST_MINOR: Final = 36
"""Minor versions of Kubernetes 1 that this provider is known to work with: https://karpenter.sh/docs/upgrading/compatibility/"""

_VERSION_KEPT_SECONDS: Final = 5 * 60.0
_FOREVER: Final = float("inf")
# The Service of CoreDNS is still called kube-dns, so that configurations made for its predecessor work:
# https://kubernetes.io/docs/tasks/administer-cluster/dns-custom-nameservers/
_DNS: Final = "kube-dns"
_SYSTEM: Final = "kube-system"


class Joining(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of the cluster that a node needs to join."""

    name: str
    endpoint: str
    ca_bundle: str
    dns: str = ""
    """The address of the cluster's DNS; empty when it has none that we know."""


class EksCluster:
    """Describes the cluster."""

    def __init__(
        self,
        aws: AwsApi,
        settings: AwsSettings,
        objects: ClusterObjects,
        *,
        monotonic: Callable[[], float],
        version: Callable[[], Awaitable[str]] | None = None,
        ca_bundle: str | None = None,
    ) -> None:
        """`version` asks the API server, `ca_bundle` is what our client trusts; else, EKS is asked."""
        self._aws = aws
        self._ca_bundle = ca_bundle
        self._ask_version = version
        self._settings = settings
        self._objects = objects
        self._described: TTLCache[str, ApiResponse] = TTLCache(
            seconds=_VERSION_KEPT_SECONDS, monotonic=monotonic
        )
        self._asked: TTLCache[str, str] = TTLCache(seconds=_VERSION_KEPT_SECONDS, monotonic=monotonic)
        self._once: TTLCache[str, Any] = TTLCache(seconds=_FOREVER, monotonic=monotonic)
        self._last_version = ""

    async def joining(self) -> Joining:
        """
        Return what nodes need to join.

        Raises:
            CloudError: EKS does not tell.
        """
        found: Joining = await self._once.get("joining", self._find_joining)
        return found

    async def service_cidr(self) -> str:
        """
        Return the service CIDR: the IPv4 one if there is one, else the IPv6 one.

        Raises:
            CloudError: EKS does not tell.
        """
        found: str = await self._once.get("cidr", self._find_cidr)
        return found

    async def arn(self) -> str:
        """
        Return the ARN of the cluster.

        Raises:
            CloudError: EKS does not tell.
        """
        return str((await self._describe())["arn"])

    async def version(self) -> str:
        """
        Return the version of Kubernetes, such as ``1.33``.

        Raises:
            CloudError: neither EKS nor the API server tells.
        """
        if self._settings.eks_control_plane or not (self._settings.kubernetes_version or self._ask_version):
            return self._noted(str((await self._describe())["version"]))
        if self._settings.kubernetes_version or self._ask_version is None:
            return self._noted(self._settings.kubernetes_version)
        return self._noted(await self._asked.get("", self._of_server))

    async def _of_server(self) -> str:
        assert self._ask_version is not None  # version() checks it
        return await self._ask_version()

    def _noted(self, version: str) -> str:
        if version != self._last_version:
            self._last_version = version
            minor = int(version.partition(".")[2])
            if not OLDEST_MINOR <= minor <= NEWEST_MINOR:
                log.error(
                    "kubernetes.untested",
                    version=version,
                    oldest=f"1.{OLDEST_MINOR}",
                    newest=f"1.{NEWEST_MINOR}",
                )
        return version

    async def _find_joining(self) -> Joining:
        settings = self._settings
        endpoint, bundle = settings.cluster_endpoint, settings.cluster_ca_bundle or self._ca_bundle
        if not endpoint or bundle is None:
            told = await self._describe()
            endpoint = endpoint or told.get("endpoint", "")
            if bundle is None:
                bundle = told.get("certificateAuthority", {}).get("data", "")
        if not endpoint:
            raise CloudUnreachable(f"EKS does not tell the endpoint of cluster {settings.cluster}")
        return Joining(name=settings.cluster, endpoint=endpoint, ca_bundle=bundle, dns=await self._find_dns())

    async def _find_dns(self) -> str:
        try:
            found = await self._objects.get(Service, _DNS, namespace=_SYSTEM)
        except CloudError as error:
            log.warning("kube_dns.unknown", error=str(error))
            return ""
        return found.spec.cluster_ip if found is not None else ""

    async def _find_cidr(self) -> str:
        network = (await self._describe()).get("kubernetesNetworkConfig", {})
        found = network.get("serviceIpv4Cidr") or network.get("serviceIpv6Cidr")
        if not found:
            raise CloudUnreachable(f"EKS does not tell the service addresses of {self._settings.cluster}")
        return str(found)

    async def _describe(self) -> ApiResponse:
        return await self._described.get("", self._ask)

    async def _ask(self) -> ApiResponse:
        answer = await self._aws.call("eks", "DescribeCluster", name=self._settings.cluster)
        cluster: ApiResponse = answer["cluster"]
        return cluster
