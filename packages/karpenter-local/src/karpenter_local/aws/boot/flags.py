"""Kubelet settings as flags: ``--max-pods=110 --node-labels="a=b,c=d"``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from karpenter.api.node import Taint
from karpenter_local.aws.boot.bootconfig import CannotJoin, KubeletArguments

if TYPE_CHECKING:
    from collections.abc import Iterable


def split_flags(text: str) -> dict[str, str]:
    """
    Return flags by their names; the last of a name counts.

    Raises:
        CannotJoin: a quote is not closed, or a word is no flag.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CannotJoin(f"kubelet: the arguments cannot be read: {error}") from None
    return read_words(words)


def read_words(words: Iterable[str]) -> dict[str, str]:
    """
    Return flags by their names, from words that are split already.

    Raises:
        CannotJoin: a word is no flag.
    """
    found: dict[str, str] = {}
    waiting = ""
    for word in words:
        if waiting and not word.startswith("--"):
            found[waiting], waiting = word, ""
        elif word.startswith("--"):
            name, sign, value = word.removeprefix("--").partition("=")
            found[name], waiting = (value if sign else "true"), ("" if sign else name)
        else:
            raise CannotJoin(f"kubelet: unknown command {word!r}")
    return found


def labels_of(flags: dict[str, str]) -> dict[str, str]:
    """
    Return the labels that a kubelet registers with.

    Raises:
        CannotJoin: one has no value.
    """
    return _pairs("node-labels", flags.get("node-labels", ""), "=")


def taints_of(flags: dict[str, str]) -> tuple[Taint, ...]:
    """
    Return the taints that a kubelet registers with.

    Raises:
        CannotJoin: one has no effect.
    """
    return tuple(read_taint(each) for each in flags.get("register-with-taints", "").split(",") if each)


def read_taint(text: str) -> Taint:
    """
    Return a taint that is written as ``key=value:Effect`` or ``key:Effect``.

    Raises:
        CannotJoin: it has no effect.
    """
    said, colon, effect = text.rpartition(":")
    key, _, value = said.partition("=")
    if not colon or not key or effect not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
        raise CannotJoin(f"kubelet: invalid taint spec: {text}")
    return Taint(key=key, value=value, effect=effect)


def kubelet_of(flags: dict[str, str]) -> KubeletArguments:
    """
    Return the settings that flags say; they replace what the image would do by itself.

    Raises:
        CannotJoin: one cannot be read.
    """
    return KubeletArguments(
        max_pods=whole("max-pods", flags["max-pods"]) if "max-pods" in flags else None,
        pods_per_core=whole("pods-per-core", flags.get("pods-per-core", "0")),
        kube_reserved=_pairs("kube-reserved", flags.get("kube-reserved", ""), "="),
        system_reserved=_pairs("system-reserved", flags.get("system-reserved", ""), "="),
        eviction_hard=_pairs("eviction-hard", flags.get("eviction-hard", ""), "<"),
        merges=False,
    )


def whole(name: str, value: object) -> int:
    """
    Return a whole number of 0 or more.

    Raises:
        CannotJoin: it is none.
    """
    text = str(value)
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()):
        raise CannotJoin(f"kubelet: invalid argument {text!r} for {name}: not a number of 0 or more")
    return int(text)


def _pairs(name: str, text: str, sign: str) -> dict[str, str]:
    found = {}
    for each in filter(None, text.split(",")):
        key, said, value = each.partition(sign)
        if not said or not key:
            raise CannotJoin(f"kubelet: invalid argument {each!r} for --{name}")
        found[key.strip()] = value.strip()
    return found
