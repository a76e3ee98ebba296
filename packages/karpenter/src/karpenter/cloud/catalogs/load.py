"""
Finds a catalogue by what the user calls it: a built-in name, or a file.

The names are ``kwok``, ``aws`` (EC2 in us-east-1) and ``aws:REGION``. Anything else is the path of a file in
the format of :mod:`.kwok_format`. A built-in catalogue is made when it is first used, and then cached.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from karpenter.api.labels import REGION
from karpenter.base.files import LARGEST_TEXT, read_bounded
from karpenter.base.pretty import did_you_mean, nearest
from karpenter.cloud.catalogs.kwok import kwok_catalog
from karpenter.cloud.catalogs.kwok_format import CatalogProblem, InvalidCatalog, parse_catalog

if TYPE_CHECKING:
    from karpenter.core.model.catalog import Catalog

_EC2_LABEL: Final = "karpenter.k8s.aws/instance-family"
KWOK: Final = "kwok"
AWS: Final = "aws"


def load_catalog(name: str) -> Catalog:
    """
    Return the catalogue called `name`: kwok, aws, aws:REGION, or the path of a file.

    Raises:
        InvalidCatalog: with one line for each problem of the name or the file.
    """
    if name == KWOK or name.partition(":")[0] == AWS:
        return _built_in(name)
    try:
        text = read_bounded(Path(name), LARGEST_TEXT).decode("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        near = nearest(name, built_in_names())
        meant = f"; did you mean {near}?" if near else ""
        raise InvalidCatalog([CatalogProblem(name, "", "", f"{_unreadable(reason)}{meant}")]) from None
    return _with_volumes(parse_catalog(text, file=name))


def _with_volumes(catalog: Catalog) -> Catalog:
    """Return a catalogue of a file with what volumes cost, if it is one of EC2 in a region that is known."""
    first = catalog.types[0].requirements
    region = min(first[REGION].values, default="") if _EC2_LABEL in first and REGION in first else ""
    if not region:
        return catalog
    from karpenter.cloud.catalogs.ec2.volumes import PUBLIC_IPV4_HOURLY, volume_prices  # noqa: PLC0415  only for EC2

    prices = volume_prices(region)
    return msgspec.structs.replace(catalog, volume_prices=prices, public_ipv4_price=PUBLIC_IPV4_HOURLY)


def built_in_names() -> tuple[str, ...]:
    """Return the names of every built-in catalogue, the default one first."""
    from karpenter.cloud.catalogs.ec2.data import load_data  # noqa: PLC0415  read only when EC2 is used

    return (KWOK, AWS, *(f"{AWS}:{region}" for region in sorted(load_data().regions)))


@lru_cache(maxsize=4)
def _built_in(name: str) -> Catalog:
    if name == KWOK:
        return kwok_catalog()
    from karpenter.cloud.catalogs.ec2.data import load_data  # noqa: PLC0415  as above
    from karpenter.cloud.catalogs.ec2.instancetypes import DEFAULT_REGION, ec2_catalog  # noqa: PLC0415  as above

    region = name.removeprefix(AWS).removeprefix(":") or DEFAULT_REGION
    data = load_data()
    if region not in data.regions:
        meant = did_you_mean(region, sorted(data.regions))
        raise InvalidCatalog([CatalogProblem(name, "", "", f"there is no region {region!r}; {meant}")])
    return ec2_catalog(data, region)


def _unreadable(reason: str) -> str:
    return f"cannot be read: {reason}; a catalogue is {KWOK}, {AWS}, {AWS}:REGION or the path of a file"
