"""Kubelet settings as flags, for images whose start scripts take nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karpenter.cloud.aws.userdata.bootstrap import render_labels, render_taint

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from karpenter.cloud.aws.userdata.bootstrap import Bootstrap


def kubelet_flags(told: Bootstrap) -> str:
    """Return the flags, joined by spaces, always in the same order."""
    return " ".join(_flags(told))


def _flags(told: Bootstrap) -> Iterator[str]:
    kubelet = told.kubelet
    if told.labels:
        yield f'--node-labels="{render_labels(told.labels)}"'
    yield f'--register-with-taints="{",".join(map(render_taint, told.taints))}"'
    yield from _number("max-pods", kubelet.max_pods)
    yield from _number("pods-per-core", kubelet.pods_per_core)
    yield from _pairs("system-reserved", kubelet.system_reserved, "=")
    yield from _pairs("kube-reserved", kubelet.kube_reserved, "=")
    yield from _pairs("eviction-hard", kubelet.eviction_hard, "<")
    yield from _pairs("eviction-soft", kubelet.eviction_soft, "<")
    yield from _pairs("eviction-soft-grace-period", kubelet.eviction_soft_grace_period, "=")
    yield from _number("eviction-max-pod-grace-period", kubelet.eviction_max_pod_grace_period)
    yield from _number("image-gc-high-threshold", kubelet.image_gc_high)
    yield from _number("image-gc-low-threshold", kubelet.image_gc_low)
    if kubelet.cpu_cfs_quota is not None:
        yield f"--cpu-cfs-quota={'true' if kubelet.cpu_cfs_quota else 'false'}"


def _number(flag: str, value: int | str | None) -> Iterator[str]:
    if isinstance(value, int):
        yield f"--{flag}={value}"


def _pairs(flag: str, entries: Mapping[str, str], sign: str) -> Iterator[str]:
    if entries:
        yield f'--{flag}="{",".join(f"{key}{sign}{entries[key]}" for key in sorted(entries))}"'
