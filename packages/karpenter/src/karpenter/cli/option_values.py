"""
What options may be: callbacks of options that refuse a value before anything is read, asked or made.

Names that only a cluster or an account knows are not known here; what cannot be one at all is refused, with
what was probably meant.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from karpenter.base.pretty import did_you_mean, excerpt, nearest
from karpenter.cli.errors import CommandError, note

if TYPE_CHECKING:
    import click

_REGION: Final = re.compile(r"[a-z]{2,4}(-[a-z]+)+-[0-9]")
_OTHER_PARTITIONS: Final = ("us-iso", "eu-iso", "us-gov", "cn-")
"""How the names of regions begin whose prices are not public, so that not all are known here."""

_KUBERNETES: Final = re.compile(r"v?1\.(\d{1,3})(\..*)?")
_RELEASE: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,51}[a-z0-9])?")
# A tag: https://github.com/opencontainers/distribution-spec/blob/main/spec.md#pulling-manifests
_VERSION: Final = re.compile(r"\w[\w.+-]{0,127}", re.ASCII)
_PINNED: Final = re.compile(r"latest|v[0-9][0-9A-Za-z.-]*")


def aws_region(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse what cannot be the name of a region, and name one that is not known: AWS opens others."""
    del ctx
    if not value:
        return value
    from karpenter.cloud.catalogs.ec2.data import load_data  # noqa: PLC0415  only where one is named

    known = load_data().regions
    near = nearest(value, known)
    meant = f"did you mean {near}?" if near else "such as us-west-2"
    if not _REGION.fullmatch(value):
        raise CommandError(f"{param.opts[-1]}: {value!r} cannot be the name of an AWS region", hint=meant)
    if value not in known and not value.startswith(_OTHER_PARTITIONS):
        note(f"warning: {param.opts[-1]}: {value} is no region that is known here; {meant}")
    return value


def ec2_ids(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what cannot be an id of what the option is named after, such as ``sg-0abc``."""
    del ctx
    prefix = "sg" if "security" in param.opts[-1] else "subnet"
    for each in value:
        if not re.fullmatch(rf"{prefix}-[0-9a-z]+", each):
            raise CommandError(
                f"{param.opts[-1]}: {each!r} is no id", hint=f"such as {prefix}-0a1b2c3d4e5f60718"
            )
    return value


def ami_alias(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse what an EC2NodeClass would not be accepted with."""
    del ctx
    from karpenter.api.ec2nodeclass import FAMILY_OF_ALIAS  # noqa: PLC0415  only where one is named

    family, at, version = value.partition("@")
    if value and family not in FAMILY_OF_ALIAS:
        raise CommandError(
            f"{param.opts[-1]}: {value!r} names no family of images",
            hint=f"FAMILY@VERSION, such as al2023@latest; {did_you_mean(family, FAMILY_OF_ALIAS)}",
        )
    if value and not (at and _PINNED.fullmatch(version)):
        near = nearest(version, ["latest"])
        raise CommandError(
            f"{param.opts[-1]}: {value!r} names no version of the family {family}",
            hint=f"{family}@{near or 'latest'}, or a version such as {family}@v20260801",
        )
    return value


def version_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse what cannot be a version of an image or a chart."""
    del ctx
    if value and not _VERSION.fullmatch(value):
        raise CommandError(f"{param.opts[-1]}: {value!r} cannot be a version", hint="such as 0.1.0")
    return value


def kubernetes_minor(value: str, *, option: str = "--kubernetes-version") -> int:
    """
    Return the 29 of ``1.29``.

    Raises:
        CommandError: it is no version of Kubernetes.
    """
    found = _KUBERNETES.fullmatch(value)
    if found is None:
        raise CommandError(f"{option}: {value!r} is not a version of Kubernetes", hint="such as 1.29")
    return int(found[1])


def release_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse what Helm would refuse as the name of a release."""
    del ctx
    # https://helm.sh/docs/chart_best_practices/conventions/ and validation in Helm's pkg/chartutil
    if not _RELEASE.fullmatch(value):
        raise CommandError(
            f"{param.opts[-1]}: {value!r} cannot be the name of a Helm release",
            hint="up to 53 lower-case letters, digits, - and ., with a letter or a digit at both ends",
        )
    return value


def label_pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Return the labels of ``KEY=VALUE``, of which every one could be a label in Kubernetes."""
    from karpenter.api.validation.nodeclaim_validation import (  # noqa: PLC0415  only where one is given
        KEY_RULE,
        VALUE_RULE,
        is_label_value,
        is_qualified_name,
    )

    del ctx
    found = {}
    for each in value:
        key, equals, text = each.partition("=")
        if not equals or not key:
            raise CommandError(f"{param.opts[-1]}: {each!r} is not KEY=VALUE", hint="such as team=platform")
        if not is_qualified_name(key):
            raise CommandError(f"{param.opts[-1]}: {excerpt(key)} {KEY_RULE}")
        if not is_label_value(text):
            raise CommandError(f"{param.opts[-1]}: {excerpt(text)} {VALUE_RULE}")
        found[key] = text
    return found


def page_url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Refuse what a browser could not open from anywhere."""
    del ctx
    parts = urlsplit(value)
    if value and not (parts.scheme in {"http", "https"} and parts.hostname and value.isprintable()):
        raise CommandError(
            f"{param.opts[-1]}: {value!r} is no address of a page",
            hint="such as https://wiki.example.com/karpenter",
        )
    return value


def ca_bundle(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse what is not base64, as a kubeconfig has the certificates of a cluster."""
    del ctx
    try:
        base64.b64decode(value or "", validate=True)
    except (binascii.Error, ValueError):
        raise CommandError(
            f"{param.opts[-1]}: is not base64, as certificate-authority-data of a kubeconfig is"
        ) from None
    return value
