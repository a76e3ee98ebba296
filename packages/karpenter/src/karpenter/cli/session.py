"""What commands share that decide about a cluster: their options, and the cluster that these name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from karpenter.cli.errors import CommandError, note
from karpenter.cli.files import named_values
from karpenter.cloud.catalogs.ec2.instancetypes import DEFAULT_REGION
from karpenter.cloud.catalogs.kwok_format import InvalidCatalog
from karpenter.cloud.catalogs.load import AWS, load_catalog
from karpenter.operator.options import SettingError, Settings, parse_settings
from karpenter.session.catalog import CatalogUnclear, chosen_catalog

if TYPE_CHECKING:
    from karpenter.core.model.catalog import Catalog
    from karpenter.core.state.cluster import ClusterView


def catalog_for(view: ClusterView, asked: str, *, live: bool, host: str = "") -> Catalog:
    """Return the catalogue that is asked for, or the one that suits a cluster; else raises CommandError."""
    name = catalog_name_for(view, asked, live=live, host=host)
    if name == AWS and not asked:
        note(f"note: no zone says in which region this is; prices are those of {DEFAULT_REGION}")
    return catalog_named(name)


def catalog_name_for(view: ClusterView, asked: str, *, live: bool, host: str = "") -> str:
    try:
        return chosen_catalog(view, asked, live=live, host=host)
    except CatalogUnclear as error:
        raise CommandError(str(error), hint=error.hint) from error


def catalog_named(name: str) -> Catalog:
    """Return the catalogue of ``--catalog``; raises CommandError where there is none."""
    try:
        return load_catalog(name)
    except InvalidCatalog as error:
        raise CommandError(*str(error).splitlines()) from None


def moment_of(text: str | None, option: str = "--now") -> datetime:
    """Return the moment that an option names, or this one; raises CommandError where it is no time."""
    if text is None:
        return datetime.now(UTC)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"{option}: {text!r} is not a time such as 2026-01-31T09:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def settings_of(given: tuple[str, ...]) -> Settings:
    """Return the settings of ``--set``; raises CommandError where one is none."""
    try:
        return parse_settings(named_values(given))
    except SettingError as error:
        raise CommandError(f"--set: {error}") from None
