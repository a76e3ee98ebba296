"""Catalogues as users write them: valid entries to start from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from karpenter.api.labels import CAPACITY_TYPE, ZONE
from karpenter.cloud.catalogs.kwok_format import parse_catalog

if TYPE_CHECKING:
    from karpenter.core.model.catalog import Catalog

RESERVATION_ID = "karpenter.kwok.sh/reservation-id"


def requirement(key: str, *values: str) -> dict[str, Any]:
    """Return an In requirement as the format spells it."""
    return {"key": key, "operator": "In", "values": list(values)}


def offering(
    zone: str = "zone-1", kind: str = "on-demand", *more: dict[str, Any], **fields: object
) -> dict[str, Any]:
    """Return an offering as the format spells it."""
    requirements = [requirement(ZONE, zone), requirement(CAPACITY_TYPE, kind), *more]
    return {"Price": 0.5, "Requirements": requirements, **fields}


def entry(name: str = "small", *offerings: dict[str, Any], **fields: object) -> dict[str, Any]:
    """Return an instance type as the format spells it."""
    return {
        "name": name,
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {"cpu": "4", "memory": "8Gi"},
        "offerings": list(offerings or (offering(),)),
        **fields,
    }


def parse(*entries: object) -> Catalog:
    return parse_catalog(json.dumps(entries), file="types.json")
