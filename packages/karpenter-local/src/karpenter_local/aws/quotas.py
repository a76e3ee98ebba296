"""
Quotas of vCPUs: what Service Quotas tells of them, and what a fleet is refused for.

An account may run plenty until a quota is set; one that is set is enforced, as EC2 does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from karpenter.api.labels import SPOT
from karpenter.doctor.quotas import QUOTAS, VcpuQuota, quota_code, vcpus_of
from karpenter_local.aws.account import CapacityError
from karpenter_local.aws.instancestate import capacity_type_of, is_alive
from karpenter_local.aws.wire import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from karpenter_local.aws.account import Account

DEFAULT_QUOTA_VCPUS: Final = 10_000
"""vCPUs of a quota that nothing was said of."""

_SERVICE: Final = "ec2"


def set_quota(account: Account, code: str, vcpus: int) -> None:
    _stated(account)[code] = vcpus


def forget_quotas(account: Account) -> None:
    _stated(account).clear()


def _stated(account: Account) -> dict[str, int]:
    stated: dict[str, int] = account.services.setdefault("service-quotas", {})
    return stated


def shortage(
    account: Account, capacity_type: str, instance_type: str, instances: Iterable[Any]
) -> tuple[CapacityError, int] | None:
    """Return how many more machines of a type a quota allows, and the error beyond; None without a quota."""
    code = quota_code(instance_type, capacity_type)
    limit = _stated(account).get(code)
    if limit is None:
        return None
    used = sum(
        vcpus_of(each.instance_type)
        for each in instances
        if is_alive(each) and quota_code(each.instance_type, capacity_type_of(each)) == code
    )
    error = CapacityError(code="MaxSpotInstanceCountExceeded", message="Max spot instance count exceeded")
    if capacity_type != SPOT:
        error = CapacityError(
            code="VcpuLimitExceeded",
            message=f"You have requested more vCPU capacity than your current vCPU limit of {limit} allows"
            " for the instance bucket that the specified instance type belongs to.",
        )
    return error, max(0, (limit - used) // vcpus_of(instance_type))


def _list_service_quotas(account: Account, said: Mapping[str, Any]) -> dict[str, Any]:
    if said.get("ServiceCode") != _SERVICE:
        raise AwsError("NoSuchResourceException", "The request failed because there is no such service")
    return {"Quotas": [_described(account, each) for each in QUOTAS]}


def _get_service_quota(account: Account, said: Mapping[str, Any]) -> dict[str, Any]:
    found = [each for each in QUOTAS if each.code == said.get("QuotaCode")]
    if said.get("ServiceCode") != _SERVICE or not found:
        raise AwsError("NoSuchResourceException", "The request failed because there is no such quota")
    return {"Quota": _described(account, found[0])}


def _described(account: Account, quota: VcpuQuota) -> dict[str, Any]:
    name = f"Running On-Demand {quota.group} instances"
    if quota.capacity_type == SPOT:
        name = f"All {quota.group} Spot Instance Requests"
    return {
        "ServiceCode": _SERVICE,
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{account.region}:{account.number}:{_SERVICE}/{quota.code}",
        "QuotaCode": quota.code,
        "QuotaName": name,
        "Value": float(_stated(account).get(quota.code, DEFAULT_QUOTA_VCPUS)),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }


OPERATIONS: Final[dict[str, Callable[[Account, Mapping[str, Any]], dict[str, Any]]]] = {
    "ListServiceQuotas": _list_service_quotas,
    "GetServiceQuota": _get_service_quota,
}
"""What Service Quotas answers."""
