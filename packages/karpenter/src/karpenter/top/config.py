"""
The flags and the file of the node viewer: what may be said, what wins, and what is refused.

A flag wins over the environment (which has only ``KUBECONFIG``), that over the file ``~/.eks-node-viewer``,
and the file over the default. The file has lines of ``key=value`` whose keys are the names of the flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.color import Color, ColorParseError

from karpenter.base.pretty import did_you_mean
from karpenter.core.model.resources import CPU, EPHEMERAL_STORAGE, HUGEPAGES_PREFIX, MEMORY, PODS
from karpenter.core.model.selectors import SelectorError
from karpenter.top.model import GPU, parse_sort, read_selector
from karpenter.top.snapshot import TopOptions
from karpenter.top.table import DEFAULT_STYLE

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE: Final = ".eks-node-viewer"
FLAGS: Final = (
    "context",
    "disable-pricing",
    "extra-labels",
    "kubeconfig",
    "node-selector",
    "node-sort",
    "resources",
    "style",
)
"""What the file may say."""

DEFAULTS: Final = {
    "node-sort": "creation=dsc",
    "resources": "cpu",
    "style": ",".join(DEFAULT_STYLE),
}
# What Go's strconv.ParseBool takes: https://pkg.go.dev/strconv#ParseBool
_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_COLOURS: Final = 3
_RESOURCES: Final = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE, GPU)
"""Resources whose names have no domain, and what stands for all GPUs."""


class TopConfigError(ValueError):
    """A flag or a line of the file that cannot be used; one sentence."""


def read_file(text: str) -> dict[str, str]:
    """Return what a file says; lines that are no setting are left out."""
    found = {}
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        if equals and key.strip() in FLAGS and not key.startswith("#"):
            found[key.strip()] = value.strip()
    return found


def resolve(flags: Mapping[str, str | None], environ: Mapping[str, str], file: str) -> dict[str, str]:
    """Return the value of each flag; a flag that was not given is None in `flags`."""
    said = read_file(file)
    told = {"kubeconfig": environ.get("KUBECONFIG") or None}
    return {
        name: next(
            value
            for value in (flags.get(name), told.get(name), said.get(name), DEFAULTS.get(name, ""))
            if value is not None
        )
        for name in FLAGS
    }


def options_of(values: Mapping[str, str]) -> TopOptions:
    """
    Return what is to be shown.

    Raises:
        TopConfigError: naming the flag and what is allowed.
    """
    style = tuple(each.strip() for each in values["style"].split(","))
    if len(style) != _COLOURS:
        raise TopConfigError(
            f'three colors must be provided for the style, found {len(style)} ("{values["style"]}")'
        )
    for colour in style:
        try:
            Color.parse(colour)
        except ColorParseError:
            raise TopConfigError(f"--style: {colour!r} is no colour such as #04B575") from None
    try:
        selector = read_selector(values["node-selector"])
    except SelectorError as error:
        raise TopConfigError(f"--node-selector: {error}") from None
    resources = _listed(values["resources"])
    if not resources:
        raise TopConfigError("--resources: names no resource such as cpu,memory")
    for each in resources:
        if "/" not in each and each not in _RESOURCES and not each.startswith(HUGEPAGES_PREFIX):
            meant = did_you_mean(each, _RESOURCES)
            raise TopConfigError(f"--resources: there is no resource {each!r}; {meant}")
    try:
        order = parse_sort(values["node-sort"])
    except ValueError as error:
        raise TopConfigError(f"--node-sort: {error}") from None
    return TopOptions(
        resources=resources,
        extra_labels=_listed(values["extra-labels"]),
        selector=selector,
        order=order,
        style=style,
        pricing=values["disable-pricing"] not in _TRUE,
    )


def _listed(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())
