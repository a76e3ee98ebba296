"""Service Quotas: the quotas of vCPUs, as the SDK reads them."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from karpenter_local.aws.quotas import DEFAULT_QUOTA_VCPUS, forget_quotas, set_quota
from tests.unit.local.aws.bare import code_of, shared_site

STANDARD = "L-1216C47A"


def test_quotas_are_listed() -> None:
    """One that was set is told as it was set, the others as plenty; all by the names that AWS has."""
    site = shared_site()
    set_quota(site.account, STANDARD, 32)
    told = site.client("service-quotas").list_service_quotas(ServiceCode="ec2")["Quotas"]
    forget_quotas(site.account)
    found = {each["QuotaCode"]: (each["QuotaName"], each["Value"]) for each in told}

    assert found[STANDARD] == ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 32.0)
    assert found["L-3819A6DF"] == ("All G and VT Spot Instance Requests", DEFAULT_QUOTA_VCPUS)


def test_one_quota() -> None:
    """It is found by its code."""
    quota = shared_site().client("service-quotas").get_service_quota(ServiceCode="ec2", QuotaCode=STANDARD)

    assert quota["Quota"]["Value"] == DEFAULT_QUOTA_VCPUS


@pytest.mark.parametrize(
    ("service", "code"),
    [pytest.param("ec2", "L-0", id="no such quota"), pytest.param("s3", STANDARD, id="another service")],
)
def test_what_does_not_exist(service: str, code: str) -> None:
    """AWS says so."""
    with pytest.raises(ClientError) as caught:
        shared_site().client("service-quotas").get_service_quota(ServiceCode=service, QuotaCode=code)

    assert code_of(caught.value) == "NoSuchResourceException"
