"""A region with three types, as AWS would describe it, and the environment in which the SDK finds it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tests.unit.cloud.catalogs.ec2.endpoint import Aws, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


def record(name: str, **fields: object) -> dict[str, Any]:
    """Return what DescribeInstanceTypes says about an m5.large, unless told otherwise."""
    return {
        "InstanceType": name,
        "SupportedUsageClasses": ["on-demand", "spot"],
        "SupportedVirtualizationTypes": ["hvm"],
        "Hypervisor": "nitro",
        "BareMetal": False,
        "ProcessorInfo": {
            "SupportedArchitectures": ["i386", "x86_64"],
            "SustainedClockSpeedInGhz": 3.1,
            "Manufacturer": "Intel",
        },
        "VCpuInfo": {"DefaultVCpus": 2},
        "MemoryInfo": {"SizeInMiB": 8192},
        "EbsInfo": {
            "EbsOptimizedSupport": "default",
            "EbsOptimizedInfo": {"MaximumBandwidthInMbps": 4750},
        },
        "NetworkInfo": {
            "NetworkPerformance": "Up to 10 Gigabit",
            "DefaultNetworkCardIndex": 0,
            "NetworkCards": [
                {"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 3, "BaselineBandwidthInGbps": 0.75}
            ],
            "Ipv4AddressesPerInterface": 10,
            "EncryptionInTransitSupported": False,
        },
        "NitroEnclavesSupport": "unsupported",
        **fields,
    }


def product(name: str, dollars: str, currency: str = "USD") -> str:
    """Return an entry of the price list, which is JSON within JSON."""
    return json.dumps(
        {
            "product": {"attributes": {"instanceType": name}},
            "terms": {"OnDemand": {"t": {"priceDimensions": {"d": {"pricePerUnit": {currency: dollars}}}}}},
        }
    )


def spot(name: str, zone: str, dollars: str, hour: int = 1) -> dict[str, Any]:
    """Return an entry of the spot price history."""
    return {
        "InstanceType": name,
        "AvailabilityZone": zone,
        "SpotPrice": dollars,
        "Timestamp": f"2026-10-01T{hour:02}:00:00Z",
        "ProductDescription": "Linux/UNIX",
    }


def sold(name: str, zone: str) -> dict[str, Any]:
    return {"InstanceType": name, "LocationType": "availability-zone", "Location": zone}


def answers() -> dict[str, list[dict[str, Any]]]:
    """Return what a region with three types says, on several pages."""
    mac = {"SupportedArchitectures": ["arm64_mac"], "Manufacturer": "Apple"}
    return {
        "DescribeInstanceTypes": [
            {"InstanceTypes": [record("m5.large"), record("mac2.metal", ProcessorInfo=mac)]},
            {"InstanceTypes": [record("brand9.new"), record("c0.unpriced")]},
        ],
        "DescribeAvailabilityZones": [
            {
                "AvailabilityZones": [
                    {"ZoneName": "eu-west-1a", "ZoneId": "euw1-az3"},
                    {"ZoneName": "eu-west-1b", "ZoneId": "euw1-az1"},
                ]
            }
        ],
        "DescribeInstanceTypeOfferings": [
            {"InstanceTypeOfferings": [sold("m5.large", "eu-west-1b"), sold("m5.large", "eu-west-1a")]},
            {"InstanceTypeOfferings": [sold("brand9.new", "eu-west-1a"), sold("m5.large", "eu-west-1z")]},
        ],
        "GetProducts": [
            {"PriceList": [product("m5.large", "0.1070000000"), product("m5.large", "0.0")]},
            {"PriceList": [product("brand9.new", "0.5"), product("never.heard", "1")]},
        ],
        "DescribeSpotPriceHistory": [
            {"SpotPriceHistory": [spot("m5.large", "eu-west-1a", "0.05", hour=11)]},
            {
                "SpotPriceHistory": [
                    spot("m5.large", "eu-west-1a", "0.06", hour=9),
                    spot("brand9.new", "eu-west-1b", "0.1"),
                ]
            },
        ],
    }


@contextmanager
def small_region(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    """Put a small AWS in the place of the real one, for everything that uses boto3."""
    small = Aws(answers())
    with serving(small) as address:
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        monkeypatch.delenv("AWS_PROFILE", raising=False)
        monkeypatch.delenv("AWS_REGION", raising=False)
        monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
        yield small
